package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func TestRegistered(t *testing.T) {
	assert.Contains(t, locker.Drivers(), "goredis")
}

func TestOpenConnectorRefuses(t *testing.T) {
	for name, cfg := range map[string]driver.Config{
		"mode":     {Mode: 17, Addrs: []string{"127.0.0.1:1"}},
		"network":  {Network: "udp", Addrs: []string{"127.0.0.1:1"}},
		"database": {Mode: driver.ModeCluster, Addrs: []string{"h:1"}, DB: 3},
	} {
		_, err := goredis.Driver{}.OpenConnector(cfg)
		assert.ErrorIs(t, err, driver.ErrUnsupported, name)
	}
	for name, cfg := range map[string]driver.Config{
		"no address":       {Network: "tcp"},
		"two servers":      {Addrs: []string{"h:1", "h:2"}},
		"no master":        {Mode: driver.ModeSentinel, Addrs: []string{"h:1"}},
		"negative timeout": {Addrs: []string{"h:1"}, Timeout: -1},
		"negative pool":    {Addrs: []string{"h:1"}, PoolSize: -1},
	} {
		_, err := goredis.Driver{}.OpenConnector(cfg)
		assert.Error(t, err, name)
	}
}

func TestOpenUnix(t *testing.T) {
	server := servertest.Single(t)
	t.Chdir(filepath.Dir(server.Socket))
	conn := open(t, driver.Config{Network: "unix", Addrs: []string{filepath.Base(server.Socket)}})
	assert.Equal(t, "PONG", do(t, conn, "PING"))
	hears(t, subscribe(t, conn, "c"), conn, "c", "over a socket")
}

func TestOpenTLS(t *testing.T) {
	server := servertest.TLS(t, servertest.Config("tls-auth-clients", "yes"))
	cfg := driver.Config{Network: "tcp", Addrs: []string{server.Addr}}

	cfg.TLS = server.Mutual()
	conn := open(t, cfg)
	assert.Equal(t, "PONG", do(t, conn, "PING"))
	hears(t, subscribe(t, conn, "c"), conn, "c", "over TLS")
	assert.Empty(t, cfg.TLS.ServerName, "the Config of the caller was changed")

	cfg.TLS = server.Mutual()
	cfg.TLS.ServerName = "not.the.server"
	_, err := open(t, cfg).Do(soon(t), on("SET", "k", "v"))
	assert.ErrorContains(t, err, "not.the.server")
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
}

// A server that accepts connections and never greets costs DialTimeout.
func TestOpenHungTLS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	conn := open(t, driver.Config{
		Network: "tcp", Addrs: []string{listener.Addr().String()},
		TLS: &tls.Config{}, DialTimeout: 50 * time.Millisecond,
	})
	ctx := soon(t)
	_, err = conn.Do(ctx, on("SET", "k", "v"))
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v", err)
	sub, err := conn.(driver.Subscriber).Subscribe(ctx)
	require.NoError(t, err)
	assert.Error(t, sub.Add(ctx, "c"))
	assert.NoError(t, ctx.Err())
}

// PoolSize holds for single commands and batches together.
func TestOpenPoolSize(t *testing.T) {
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	conn := open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Dial: w.Dial, PoolSize: 1})
	held := w.On(wire.Match{Name: "GET", Arg: "held"}, wire.HoldReply)
	result := make(chan error)
	go func() {
		_, err := conn.Do(t.Context(), on("GET", "held"))
		result <- err
	}()
	<-held.Happened()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, r := range conn.(driver.Batcher).DoBatch(ctx, []driver.Command{on("SET", "k", "v"), on("DEL", "k")}) {
		assert.ErrorIs(t, r.Err, context.DeadlineExceeded)
	}
	held.Release()
	assert.NoError(t, <-result)
	assert.Equal(t, 1, w.Dials())
}

// Close does not leave a dial behind until DialTimeout.
func TestOpenCloseEndsDialing(t *testing.T) {
	dialing, ended := make(chan struct{}), make(chan struct{})
	conn := open(t, driver.Config{
		Network: "tcp", Addrs: []string{"127.0.0.1:1"}, DialTimeout: time.Hour,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			close(dialing)
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		},
	})
	result := make(chan error)
	go func() {
		_, err := conn.Do(context.WithoutCancel(t.Context()), on("GET", "k"))
		result <- err
	}()
	<-dialing
	require.NoError(t, conn.Close())
	assert.ErrorIs(t, <-result, driver.ErrClosed)
	<-ended
}

func TestOpenWrongPassword(t *testing.T) {
	const password = "S3CRET"
	server := servertest.Single(t, servertest.Password("another"))
	connector, err := goredis.Driver{}.OpenConnector(driver.Config{
		Network: "tcp", Addrs: []string{server.Addr}, Password: password,
	})
	require.NoError(t, err)
	conn, err := connector.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do(soon(t), on("GET", "k"))
	wrongPassword(t, err)
	// go-redis would say that a pipeline without a connection has succeeded.
	for _, r := range conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("GET", "a"), on("GET", "b")}) {
		wrongPassword(t, r.Err)
	}
	for _, v := range []any{connector, conn, err, connector.Driver()} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			assert.NotContains(t, fmt.Sprintf(format, v), password)
		}
	}
}

// A user without a password is not the default user.
func TestOpenUserWithoutPassword(t *testing.T) {
	server := servertest.Single(t, servertest.Config("user", "app", "on", "nopass", "~*", "&*", "+@all"))
	conn := open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Username: "app"})
	assert.Equal(t, "app", do(t, conn, "ACL", "WHOAMI"))
}

// A password may be a word that servers use.
func TestRepliesStayWhatTheyAre(t *testing.T) {
	server := servertest.Single(t)
	for _, password := range []driver.Secret{"user", "script", "p"} {
		w := newWire(t, server.Addr)
		conn := open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Password: password, Dial: w.Dial})
		const refusal = "ERR The user executing the script can't run this command or subcommand"
		w.On(wire.Match{Name: "EVAL", Times: -1}, wire.Answer("-"+refusal+"\r\n"))
		_, err := conn.Do(soon(t), on("EVAL", "return 1", "0"))
		assert.Equal(t, driver.NewServerError(refusal), err)
		for _, r := range conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("EVAL", "return 1", "0"), on("EVAL", "return 2", "0")}) {
			assert.Equal(t, driver.NewServerError(refusal), r.Err)
		}
	}
}

// Whether the client is the driver's own or the application's, whose password the driver
// does not know.
func TestQuotedPasswords(t *testing.T) {
	const password = "hunter2"
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	for _, name := range []string{"hello", "auth"} {
		w.On(wire.Match{Name: name, Times: -1}, wire.Answer("-ERR unknown command '"+name+"', with args beginning with: 'default' '"+password+"' \r\n"))
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: password, Dialer: w.Dial})
	defer client.Close()
	for name, conn := range map[string]driver.Conn{
		"opened":  open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Password: password, Dial: w.Dial}),
		"wrapped": wrap(t, client),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := conn.Do(soon(t), on("GET", "k"))
			reply, ok := errors.AsType[*driver.ServerError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, driver.NewServerError("ERR unknown command 'auth'"), reply)
			assert.NotContains(t, err.Error(), password)
			sub, err := conn.(driver.Subscriber).Subscribe(soon(t))
			require.NoError(t, err)
			defer sub.Close()
			err = sub.Add(soon(t), "c")
			assert.ErrorContains(t, err, "unknown command 'auth'")
			assert.NotContains(t, err.Error(), password)
		})
	}
}

// go-redis quotes what it cannot read.
func TestQuotedPasswordInWhatIsNoReply(t *testing.T) {
	const password = "hunter2"
	server := servertest.Single(t, servertest.Password(password))
	w := newWire(t, server.Addr)
	conn := open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Password: password, Dial: w.Dial})
	w.On(wire.Match{Name: "GET"}, wire.Answer("Who knows "+password+"?\r\n"))
	_, err := conn.Do(soon(t), on("GET", "k"))
	unknown(t, err)
	assert.ErrorContains(t, err, "Who knows ")
	assert.NotContains(t, err.Error(), password)
}

func wrongPassword(t *testing.T, err error) {
	reply, ok := errors.AsType[*driver.ServerError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "WRONGPASS", reply.Code)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "it was not the command that was refused")
}
