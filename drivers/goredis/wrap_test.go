package goredis_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

func TestWrapNil(t *testing.T) {
	for name, client := range map[string]redis.UniversalClient{
		"interface":     nil,
		"Client":        (*redis.Client)(nil),
		"ClusterClient": (*redis.ClusterClient)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := goredis.Wrap(client).Connect(t.Context())
			assert.Nil(t, conn)
			assert.ErrorIs(t, err, driver.ErrUnsupported, "it may be tried again")
			assert.ErrorContains(t, err, "goredis: Wrap of a nil client: pass a *redis.Client")
		})
	}
}

type embedding struct{ redis.UniversalClient }

func TestWrapRefuses(t *testing.T) {
	single := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer single.Close()
	auto, err := single.AutoPipeline()
	require.NoError(t, err)
	cluster := func(opt redis.ClusterOptions) redis.UniversalClient {
		opt.Addrs = []string{"127.0.0.1:1"}
		return redis.NewClusterClient(&opt)
	}
	for name, client := range map[string]redis.UniversalClient{
		"Ring":            redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}),
		"AutoPipeliner":   auto,
		"unknown":         embedding{single},
		"ReadOnly":        cluster(redis.ClusterOptions{ReadOnly: true}),
		"RouteByLatency":  cluster(redis.ClusterOptions{RouteByLatency: true}),
		"RouteRandomly":   cluster(redis.ClusterOptions{RouteRandomly: true}),
		"no ReadTimeout":  cluster(redis.ClusterOptions{ReadTimeout: -1, WriteTimeout: time.Second}),
		"no WriteTimeout": cluster(redis.ClusterOptions{ReadTimeout: time.Second, WriteTimeout: -2}),
	} {
		t.Run(name, func(t *testing.T) {
			defer client.Close()
			conn, err := goredis.Wrap(client).Connect(t.Context())
			assert.Nil(t, conn)
			assert.ErrorIs(t, err, driver.ErrUnsupported)
		})
	}
}

// Close ends the Conn and its subscriptions and nothing of the client.
func TestWrapLeavesClientOpen(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	own := client.Subscribe(t.Context(), "c")
	defer own.Close()
	_, err := own.Receive(t.Context())
	require.NoError(t, err)
	before := goleak.IgnoreCurrent()

	connector := goredis.Wrap(client)
	conn, err := connector.Connect(t.Context())
	require.NoError(t, err)
	other, err := connector.Connect(t.Context())
	require.NoError(t, err)
	defer other.Close()
	sub := subscribe(t, conn, "c")
	require.NoError(t, conn.Close())

	_, err = conn.Do(t.Context(), on("GET", "k"))
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	_, err = sub.Receive(soon(t))
	assert.ErrorIs(t, err, driver.ErrClosed)
	goleak.VerifyNone(t, before)

	assert.NoError(t, client.Ping(t.Context()).Err())
	assert.Equal(t, int64(1), do(t, other, "PUBLISH", "c", "only the client's own subscription is left"))
	_, err = own.ReceiveMessage(soon(t))
	assert.NoError(t, err)
}

// Close makes calls in flight return although the client stays open.
func TestWrapCloseInterrupts(t *testing.T) {
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial})
	defer client.Close()
	conn := wrap(t, client)
	held := w.On(wire.Match{Name: "GET"}, wire.HoldReply)
	defer held.Release()
	result := make(chan error)
	go func() {
		_, err := conn.Do(context.WithoutCancel(t.Context()), on("GET", "k"))
		result <- err
	}()
	<-held.Happened()
	require.NoError(t, conn.Close())
	err := <-result
	unknown(t, err)
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, 1, w.Open(), "the client's connection was closed")
}

// The application closes its client first.
func TestWrapClosedClient(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	conn := wrap(t, client)
	do(t, conn, "PING")
	require.NoError(t, client.Close())

	_, err := conn.Do(t.Context(), on("SET", "k", "v"))
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.ErrorIs(t, err, redis.ErrClosed)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
}

// go-redis sends a command up to four times when its replies get lost. The
// client's own commands show that the fault is one that it answers so.
func TestWrapSendsOnce(t *testing.T) {
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	addr, err := w.Listen() // go-redis does not retry all errors of an in-memory connection
	require.NoError(t, err)
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 3})
	defer client.Close()
	conn := wrap(t, client)
	w.On(wire.Match{Name: "INCR", Times: -1}, wire.CutReply)

	require.Error(t, client.Incr(t.Context(), "client").Err())
	require.Equal(t, 4, w.Count(wire.Match{Name: "INCR", Arg: "client"}))

	_, err = conn.Do(t.Context(), on("INCR", "do"))
	unknown(t, err)
	assert.Equal(t, 1, w.Count(wire.Match{Name: "INCR", Arg: "do"}))

	results := conn.(driver.Batcher).DoBatch(t.Context(), []driver.Command{
		on("SET", "k", "v"), on("INCR", "batch"), on("GET", "k"),
	})
	require.Len(t, results, 3)
	for _, r := range results[1:] {
		unknown(t, r.Err)
	}
	assert.Equal(t, 1, w.Count(wire.Match{Name: "INCR", Arg: "batch"}))
}

// When a connection breaks, go-redis leaves something that looks like a value
// with the command whose reply it was reading, and its error with all that are not
// refused.
func TestWrapHalfReply(t *testing.T) {
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial})
	defer client.Close()
	conn := wrap(t, client)
	do(t, conn, "SET", "k", "value")
	w.On(wire.Match{Name: "GET"}, wire.HalfReply)
	results := conn.(driver.Batcher).DoBatch(t.Context(), []driver.Command{
		on("HGET", "absent", "f"), on("EXISTS", "absent"), on("INCR", "k"), on("GET", "k"), on("GET", "k"),
	})
	require.Len(t, results, 5)
	assert.Equal(t, driver.Result{Value: nil}, results[0])
	unknown(t, results[1].Err)
	assert.Equal(t, driver.Result{Err: driver.NewServerError("ERR value is not an integer or out of range")}, results[2])
	for _, r := range results[3:] {
		unknown(t, r.Err)
	}
}

// The reply to AUTH is none to the command, also where a hook has looked at that.
func TestWrapWrongPassword(t *testing.T) {
	server := servertest.Single(t, servertest.Password("secret"))
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "wrong"})
	defer client.Close()
	client.AddHook(new(commands))
	conn := wrap(t, client)
	for _, cmd := range []driver.Command{on("SET", "k", "v"), on("GET", "k")} {
		_, err := conn.Do(soon(t), cmd)
		wrongPassword(t, err)
	}
	for _, r := range conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("SET", "k", "v"), on("SET", "l", "v")}) {
		wrongPassword(t, r.Err)
	}
	_, err := conn.(driver.Describer).Describe(soon(t))
	wrongPassword(t, err)
}

// A client without timeouts gets the driver's.
func TestWrapWithoutTimeouts(t *testing.T) {
	for name, opt := range map[string]redis.Options{
		"none":          {ReadTimeout: -1, WriteTimeout: -1},
		"no deadlines":  {ReadTimeout: -2, WriteTimeout: -2},
		"only to read":  {WriteTimeout: -1, ReadTimeout: time.Minute},
		"only to write": {ReadTimeout: -1, WriteTimeout: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := miniredis.NewMiniRedis()
				defer memory.Close()
				w := wire.New(func(context.Context) (net.Conn, error) { return memory.Dial() })
				defer w.Close()
				opt.Addr, opt.Dialer = "127.0.0.1:6379", w.Dial
				client := redis.NewClient(&opt)
				defer client.Close()
				conn := wrap(t, client)
				_, err := conn.Do(t.Context(), on("SET", "k", "v"))
				require.NoError(t, err)

				w.Partition()
				start := time.Now()
				_, err = conn.Do(t.Context(), on("GET", "k"))
				unknown(t, err)
				assert.Equal(t, driver.DefaultTimeout, time.Since(start))
			})
		})
	}
}

// A call that gets no connection because nobody is there is not sent.
func TestWrapDialThatIsRefusedIsNotSent(t *testing.T) {
	client := redis.NewClient(&redis.Options{
		DialerRetries: 1,
		Dialer: func(_ context.Context, network, _ string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		},
	})
	defer client.Close()
	conn := wrap(t, client)
	_, err := conn.Do(soon(t), on("GET", "k"))
	results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("GET", "k"), on("GET", "k")})
	for _, err := range []error{err, results[0].Err, results[1].Err} {
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	}
}

// A call that gets no connection of a pool that is in use is not sent.
func TestWrapPoolInUse(t *testing.T) {
	server := servertest.Single(t)
	for want, opt := range map[error]*redis.Options{
		redis.ErrPoolExhausted: {PoolSize: 2, MaxActiveConns: 1},
		redis.ErrPoolTimeout:   {PoolSize: 1, PoolTimeout: 10 * time.Millisecond},
	} {
		opt.Addr, opt.PipelinePoolSize = server.Addr, -1 // batches have none of their own
		client := redis.NewClient(opt)
		defer client.Close()
		theirs := client.Conn()
		require.NoError(t, theirs.Ping(t.Context()).Err())
		conn := wrap(t, client)
		_, err := conn.Do(soon(t), on("GET", "k"))
		results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("GET", "k"), on("GET", "k")})
		for _, err := range []error{err, results[0].Err, results[1].Err} {
			assert.ErrorIs(t, err, want)
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		}
		require.NoError(t, theirs.Close())
	}
}
