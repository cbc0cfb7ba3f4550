package goredis_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

var capabilities = conformance.Capabilities{Batcher: true, Subscriber: true, Listener: true, Describer: true}

func TestConformance(t *testing.T) {
	conformance.Test(t, conformance.Harness{
		Open:         openOwn,
		Capabilities: capabilities,
	})
}

// It is a user that may do no more than docs/servers.md says.
func TestConformanceServer(t *testing.T) {
	user := servertest.ConformanceUser(t)
	server := servertest.Single(t, servertest.Password("secret"), servertest.Users(user))
	conformance.Test(t, conformance.Harness{
		Open:         goredis.Driver{}.OpenConnector,
		Capabilities: capabilities,
	}, conformance.Server(server.Addr), conformance.Auth("default", "secret"), conformance.As(user.Name, user.Password))
	server.AssertPermitted(user)
}

// A wrapped client behaves the same, although it has go-redis' own defaults: it
// retries, ignores deadlines and speaks RESP3.
func TestConformanceWrap(t *testing.T) {
	conformance.Test(t, conformance.Harness{Open: openWrapped, Capabilities: capabilities, Known: []conformance.Deviation{{
		Case: "Config/DialTimeout/Handshake", Link: "https://github.com/redis/go-redis/issues/430",
		Why: "go-redis shakes hands within ReadTimeout, which is the application's",
	}}})
}

// Of what takes long in real time, locks and black holes, TestConformanceWrap has enough.
func TestConformanceWrapServer(t *testing.T) {
	server := servertest.Single(t)
	conformance.Test(t, conformance.Harness{Open: openWrapped, Capabilities: capabilities},
		conformance.Server(server.Addr), conformance.Only("Do", "Batch", "Describe", "Close",
			"Subscribe/Ack", "Subscribe/Message", "Subscribe/Binary", "Subscribe/Listen", "Subscribe/Ctx", "Subscribe/Gap", "Subscribe/Two", "Subscribe/Close"))
}

func openOwn(cfg driver.Config) (driver.Connector, error) {
	forgetTimers()
	return goredis.Driver{}.OpenConnector(cfg)
}

func openWrapped(cfg driver.Config) (driver.Connector, error) {
	forgetTimers()
	if cfg.TLS != nil { // which go-redis leaves to the dialer
		return nil, driver.ErrUnsupported
	}
	return driver.NewConnector(goredis.Driver{}, wrapping{&cfg}.connect), nil
}

// forgetTimers empties the sync.Pool in which go-redis keeps timers for those
// that wait for a connection of a client's pool. A timer of an earlier case
// belongs to that case's synctest bubble and must not be used in another one.
func forgetTimers() {
	runtime.GC() // makes what is in a sync.Pool its victims
	runtime.GC() // frees the victims
}

// wrapping is an application that makes a client, wraps it, and closes it when
// it has closed the Conn.
type wrapping struct{ cfg *driver.Config }

func (w wrapping) connect(ctx context.Context) (driver.Conn, error) {
	pipelines := 0 // connections of their own, by default, and those of single commands besides
	if w.cfg.PoolSize > 0 {
		pipelines = -1 // none but those that PoolSize says
	}
	client := redis.NewClient(&redis.Options{
		Network:     w.cfg.Network,
		Addr:        w.cfg.Addrs[0],
		Username:    w.cfg.Username,
		Password:    string(w.cfg.Password),
		DB:          w.cfg.DB,
		ClientName:  w.cfg.ClientName,
		Dialer:      w.cfg.Dial,
		DialTimeout: w.cfg.DialTimeout,
		ReadTimeout: w.cfg.Timeout,
		PoolSize:    w.cfg.PoolSize,

		PipelinePoolSize: pipelines,
		// By default go-redis dials five times, which is bounded too, but takes
		// longer than the suite waits.
		DialerRetries: 1,
	})
	conn, err := goredis.Wrap(client).Connect(ctx)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return wrappingConn{conn, client}, nil
}

type wrappingConn struct {
	driver.Conn
	client *redis.Client
}

func (c wrappingConn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	return c.Conn.(driver.Batcher).DoBatch(ctx, cmds)
}

func (c wrappingConn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	return c.Conn.(driver.Subscriber).Subscribe(ctx)
}

func (c wrappingConn) Describe(ctx context.Context) (driver.Topology, error) {
	return c.Conn.(driver.Describer).Describe(ctx)
}

func (c wrappingConn) Close() error {
	err := c.Conn.Close()
	if closing := c.client.Close(); !errors.Is(closing, redis.ErrClosed) {
		err = errors.Join(err, closing)
	}
	return err
}
