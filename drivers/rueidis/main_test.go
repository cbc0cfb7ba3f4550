package rueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker/driver"
)

func TestMain(m *testing.M) {
	// Sleeps of rueidis' that nothing ends: it closes a Cluster's former connections five seconds after
	// it has looked for its nodes, or was sent to another one at the same address, and looks for them once a second at most.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// inBubble runs f with a wire to a miniredis of its own, where time is not real
// and a goroutine that is left at the end is an error.
func inBubble(t *testing.T, f func(t *testing.T, w *wire.Wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		w := wire.New(func(context.Context) (net.Conn, error) { return server.Dial() })
		t.Cleanup(server.Close)
		t.Cleanup(func() { require.NoError(t, w.Close()) })
		f(t, w)
	})
}

// single is the Config of one server.
func single(addr string) driver.Config {
	return driver.Config{Network: "tcp", Addrs: []string{addr}}
}

// wired is the Config of connections through w.
func wired(w *wire.Wire) driver.Config {
	cfg := single("server:6379")
	cfg.Dial = w.Dial
	return cfg
}

func connector(t *testing.T, cfg driver.Config) driver.Connector {
	t.Helper()
	c, err := rueidis.Driver{}.OpenConnector(cfg)
	require.NoError(t, err)
	return c
}

// open connects to cfg through the driver.
func open(t *testing.T, cfg driver.Config) driver.Conn {
	t.Helper()
	return connect(t, connector(t, cfg))
}

// connect returns a Conn that is closed when the test ends.
func connect(t *testing.T, c driver.Connector) driver.Conn {
	t.Helper()
	conn, err := c.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// client makes a client of the application's that connects through w. Beside
// what a miniredis needs, its options are rueidis' own, as far as change does
// not say otherwise. It is closed when the test ends.
func client(t *testing.T, w *wire.Wire, change ...func(*rue.ClientOption)) rue.Client {
	t.Helper()
	opt := rue.ClientOption{
		InitAddress:       []string{"server:6379"},
		DisableCache:      true,
		ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return w.Dial(ctx, "tcp", addr)
		},
	}
	for _, f := range change {
		f(&opt)
	}
	c, err := rue.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func command(args ...string) driver.Command { return driver.Command{Args: args} }

// keyed is a command whose n keys stand from index first on.
func keyed(first, n int, args ...string) driver.Command {
	return driver.Command{Args: args, FirstKey: first, NumKeys: n}
}

func do(t *testing.T, conn driver.Conn, args ...string) driver.Value {
	t.Helper()
	v, err := conn.Do(t.Context(), command(args...))
	require.NoError(t, err)
	return v
}

func subscribe(t *testing.T, conn driver.Conn, channels ...string) driver.Subscription {
	t.Helper()
	sub, err := conn.(driver.Subscriber).Subscribe(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sub.Close()) })
	require.NoError(t, sub.Add(t.Context(), channels...))
	return sub
}

// within returns a ctx with a deadline, for calls that have to end earlier.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func asServerError(err error) (*driver.ServerError, bool) {
	return errors.AsType[*driver.ServerError](err)
}

// listen has rueidis read from conn's connection all the time, as it does from its
// first batch on, so that the connection's end is noticed at once.
func listen(t *testing.T, conn driver.Conn) {
	t.Helper()
	for _, r := range driver.DoBatch(t.Context(), conn, []driver.Command{command("PING"), command("PING")}) {
		require.NoError(t, r.Err)
	}
}
