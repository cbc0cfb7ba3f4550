package integration_test

import (
	"context"
	"testing"
	"time"

	redigoclient "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A driverUnderTest is a driver and one of the two ways to use it.
type driverUnderTest struct {
	name    string
	wrapped bool // around a client with its own defaults, else opened by a DSN
	cluster bool // the driver can do Cluster

	wrap        func(t *testing.T, addr string) driver.Connector
	wrapCluster func(t *testing.T, addrs []string) driver.Connector
}

var drivers = []driverUnderTest{
	{name: "goredis", cluster: true, wrap: wrapGoRedis, wrapCluster: wrapGoRedisCluster},
	{name: "rueidis", cluster: true, wrap: wrapRueidis, wrapCluster: wrapRueidisCluster},
	{name: "redigo", wrap: wrapRedigo},
}

// eachDriver runs f for every driver, opened by a DSN.
func eachDriver(t *testing.T, f func(t *testing.T, d driverUnderTest)) {
	t.Helper()
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) { f(t, d) })
	}
}

// eachWay runs f for every driver, opened and wrapped.
func eachWay(t *testing.T, f func(t *testing.T, d driverUnderTest)) {
	t.Helper()
	eachWayOf(t, func(driverUnderTest) bool { return true }, f)
}

// eachDriverOnServer runs f for every driver, opened by a DSN, all at the same time
// and each with a server of its own.
func eachDriverOnServer(t *testing.T, f func(t *testing.T, d driverUnderTest, srv *servertest.Server)) {
	t.Helper()
	t.Parallel()
	eachDriver(t, withServer(f))
}

// eachWayOnServer is eachDriverOnServer for every driver, opened and wrapped.
func eachWayOnServer(t *testing.T, f func(t *testing.T, d driverUnderTest, srv *servertest.Server)) {
	t.Helper()
	t.Parallel()
	eachWay(t, withServer(f))
}

func withServer(f func(t *testing.T, d driverUnderTest, srv *servertest.Server)) func(*testing.T, driverUnderTest) {
	return func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		f(t, d, servertest.Single(t))
	}
}

// eachWayOf runs f for the drivers that are wanted, opened and wrapped.
func eachWayOf(t *testing.T, wanted func(d driverUnderTest) bool, f func(t *testing.T, d driverUnderTest)) {
	t.Helper()
	for _, d := range drivers {
		if !wanted(d) {
			continue
		}
		t.Run(d.name+"/open", func(t *testing.T) { f(t, d) })
		d.wrapped = true
		t.Run(d.name+"/wrap", func(t *testing.T) { f(t, d) })
	}
}

// client returns a lock client on the server at addr, which is closed when the
// test ends.
func (d driverUnderTest) client(t *testing.T, addr string, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	return newClient(t, d.connector(t, addr), opts...)
}

func (d driverUnderTest) connector(t *testing.T, addr string) driver.Connector {
	t.Helper()
	if d.wrapped {
		return d.wrap(t, addr)
	}
	return d.byDSN(t, "redis://"+addr)
}

func (d driverUnderTest) byDSN(t *testing.T, dsn string) driver.Connector {
	t.Helper()
	connector, err := locker.OpenConnector(d.name, dsn)
	require.NoError(t, err)
	return connector
}

// open returns a lock client by a DSN.
func (d driverUnderTest) open(t *testing.T, dsn string, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	c, err := locker.Open(d.name, dsn, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// connect takes a lock and gives it up, for clients whose requests have little time: the first
// one connects, takes longer, and is not repeated.
func connect(t *testing.T, c *locker.Client) {
	t.Helper()
	mustUnlock(t, mustTryLock(t, c.Mutex("connect", locker.TTL(patience), locker.AttemptTimeout(patience))))
}

func newClient(t *testing.T, connector driver.Connector, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	c, err := locker.New(connector, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The clients below are as an application has them that sets nothing but the
// address: go-redis with its three retries and deaf to contexts, redigo without
// any timeout.

func wrapGoRedis(t *testing.T, addr string) driver.Connector {
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return goredis.Wrap(c)
}

func wrapGoRedisCluster(t *testing.T, addrs []string) driver.Connector {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = c.Close() })
	return goredis.Wrap(c)
}

func wrapRueidis(t *testing.T, addr string) driver.Connector {
	return wrapRueidisCluster(t, []string{addr})
}

func wrapRueidisCluster(t *testing.T, addrs []string) driver.Connector {
	c, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: addrs})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return rueidis.Wrap(c)
}

func wrapRedigo(t *testing.T, addr string) driver.Connector {
	pool := &redigoclient.Pool{
		MaxIdle: 16,
		DialContext: func(ctx context.Context) (redigoclient.Conn, error) {
			return redigoclient.DialContext(ctx, "tcp", addr)
		},
		TestOnBorrow: func(c redigoclient.Conn, lastUsed time.Time) error {
			if time.Since(lastUsed) < time.Second {
				return nil
			}
			_, err := c.Do("PING")
			return err
		},
	}
	t.Cleanup(func() { _ = pool.Close() })
	return redigo.Wrap(pool)
}
