//go:build unix

package redigo_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

const password = "correct horse"

func TestConformanceOnServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes in real time")
	}
	user := servertest.ConformanceUser(t) // which may do no more than docs/servers.md says
	srv := servertest.Single(t, servertest.Password(password), servertest.Users(user))
	conformance.Test(t,
		conformance.Harness{Open: redigo.Driver{}.OpenConnector, Capabilities: capabilities},
		conformance.Server(srv.Addr), conformance.Auth("", password), conformance.As(user.Name, user.Password))
	srv.AssertPermitted(user)
}

func TestOpenReaches(t *testing.T) {
	t.Run("TCP", func(t *testing.T) {
		srv := servertest.Single(t, servertest.Password(password))
		c := open(t, driver.Config{Addrs: []string{srv.Addr}, Password: password, DB: 3, ClientName: "me"})
		require.Equal(t, "me", do(t, c, "CLIENT", "GETNAME"))
		require.Contains(t, do(t, c, "CLIENT", "LIST"), " db=3 ")
	})
	t.Run("User", func(t *testing.T) {
		srv := servertest.Single(t, servertest.Config("user", "ann", "on", ">"+password, "~*", "+@all"))
		c := open(t, driver.Config{Addrs: []string{srv.Addr}, Username: "ann", Password: password})
		require.Equal(t, "ann", do(t, c, "ACL", "WHOAMI"))
	})
	t.Run("UserWithoutPassword", func(t *testing.T) {
		srv := servertest.Single(t, servertest.Config("user", "ann", "on", "nopass", "~*", "+@all"))
		c := open(t, driver.Config{Addrs: []string{srv.Addr}, Username: "ann"})
		require.Equal(t, "ann", do(t, c, "ACL", "WHOAMI"))
	})
	t.Run("PasswordThatNobodyAskedFor", func(t *testing.T) {
		srv := servertest.Single(t)
		c := open(t, driver.Config{Addrs: []string{srv.Addr}, Password: password, DB: 3, ClientName: "me"})
		require.Equal(t, "default", do(t, c, "ACL", "WHOAMI"))
		require.Equal(t, "me", do(t, c, "CLIENT", "GETNAME"))
		require.Contains(t, do(t, c, "CLIENT", "LIST"), " db=3 ")
	})
	t.Run("Unix", func(t *testing.T) {
		srv := servertest.Single(t)
		c := open(t, driver.Config{Network: "unix", Addrs: []string{srv.Socket}})
		require.Equal(t, "PONG", do(t, c, "PING"))
	})
	t.Run("TLS", func(t *testing.T) {
		srv := servertest.TLS(t)
		for _, cfg := range []*tls.Config{srv.ServerOnly(), {InsecureSkipVerify: true}} {
			c := open(t, driver.Config{Addrs: []string{srv.Addr}, TLS: cfg})
			require.Equal(t, "PONG", do(t, c, "PING"))
		}
		c := open(t, driver.Config{Addrs: []string{srv.Addr}, TLS: &tls.Config{}})
		_, err := c.Do(t.Context(), command("PING"))
		_, unknown := errors.AsType[*tls.CertificateVerificationError](err)
		require.True(t, unknown, err)
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	})
}

func TestTLSFrozenServer(t *testing.T) {
	srv := servertest.TLS(t)
	pool := &redis.Pool{MaxIdle: 1, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", srv.Addr, redis.DialUseTLS(true), redis.DialTLSConfig(srv.ServerOnly()))
	}}
	defer pool.Close()
	opened := open(t, driver.Config{Addrs: []string{srv.Addr}, TLS: srv.ServerOnly()})
	wrapped := connect(t, redigo.Wrap(pool))
	do(t, opened, "PING")
	do(t, wrapped, "PING")
	srv.Pause()
	defer srv.Resume()
	for range 3 { // on a connection that is open, then while it is dialed
		for _, c := range []driver.Conn{opened, wrapped} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			start := time.Now()
			_, err := c.Do(ctx, command("PING"))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(start), time.Second)
		}
	}
}

// The command never left, and yet the server's answer is there to be seen.
func TestAuthenticationRefused(t *testing.T) {
	srv := servertest.Single(t, servertest.Password(password))
	for code, cfg := range map[string]driver.Config{
		"WRONGPASS": {Password: "wrong " + password},
		"NOAUTH":    {ClientName: "me"},
	} {
		cfg.Addrs = []string{srv.Addr}
		_, err := open(t, cfg).Do(t.Context(), command("PING"))
		reply, ok := errors.AsType[*driver.ServerError](err)
		require.True(t, ok, err)
		require.Equal(t, code, reply.Code)
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		require.NotContains(t, err.Error(), password)

		s, err := open(t, cfg).(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		err = s.Add(t.Context(), "ch")
		reply, ok = errors.AsType[*driver.ServerError](err)
		require.True(t, ok, err)
		require.Equal(t, code, reply.Code)
	}
}

func TestPrintingShowsNoPassword(t *testing.T) {
	connector, err := redigo.Driver{}.OpenConnector(driver.Config{Addrs: []string{"127.0.0.1:1"}, Password: password})
	require.NoError(t, err)
	c := connect(t, connector)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%t", "%x"} {
		for _, printed := range []any{connector, c, []any{connector}, struct{ V any }{c}} {
			require.NotContains(t, fmt.Sprintf(verb, printed), password)
			require.NotContains(t, fmt.Sprintf(verb, printed), fmt.Sprintf("%x", password))
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	_, err := redigo.Driver{}.OpenConnector(driver.Config{Mode: driver.ModeCluster, Addrs: []string{"h:1"}})
	require.ErrorIs(t, err, driver.ErrUnsupported)
	require.ErrorContains(t, err, "goredis or rueidis")
	_, err = redigo.Driver{}.OpenConnector(driver.Config{})
	require.ErrorContains(t, err, "without address")
	_, err = redigo.Driver{}.OpenConnector(driver.Config{Mode: driver.ModeSentinel, Addrs: []string{"h:1"}})
	require.ErrorContains(t, err, "master's name")
	_, err = redigo.Driver{}.OpenConnector(driver.Config{Addrs: []string{"h:1", "h:2"}})
	require.ErrorContains(t, err, "one address, not 2")
	_, err = redigo.Driver{}.OpenConnector(driver.Config{Network: "udp", Addrs: []string{"h:1"}})
	require.ErrorIs(t, err, driver.ErrUnsupported)
	_, err = redigo.Driver{}.OpenConnector(driver.Config{Addrs: []string{"h:1"}, Timeout: -1})
	require.Error(t, err)
}

// A server closes idle connections, here by CLIENT KILL.
func TestIdleConnectionKilledByServer(t *testing.T) {
	srv := servertest.Single(t)
	dial := func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", srv.Addr) }
	pool := &redis.Pool{
		MaxIdle:     1,
		DialContext: dial,
		TestOnBorrowContext: func(ctx context.Context, rc redis.Conn, _ time.Time) error {
			_, err := redis.DoContext(rc, ctx, "PING")
			return err
		},
	}
	defer pool.Close()
	c := connect(t, redigo.Wrap(pool))
	do(t, c, "PING")
	_, err := srv.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	require.NoError(t, err)
	require.Equal(t, int64(1), do(t, c, "INCR", "n"))
}

func TestDescribe(t *testing.T) {
	srv := servertest.Single(t, servertest.Config("user", "bob", "on", "nopass", "~*", "+@all", "-info"))
	c := open(t, driver.Config{Addrs: []string{srv.Addr}})
	topology, err := c.(driver.Describer).Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, driver.ModeSingle, topology.Mode)
	require.Len(t, topology.RunID, 40)

	c = open(t, driver.Config{Addrs: []string{srv.Addr}, Username: "bob"})
	topology, err = c.(driver.Describer).Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, driver.Topology{}, topology)

	c = open(t, driver.Config{Addrs: []string{srv.Addr}, Username: "bob", Password: "x", DialTimeout: time.Second})
	require.NoError(t, c.Close())
	_, err = c.(driver.Describer).Describe(t.Context())
	require.ErrorIs(t, err, driver.ErrClosed)
}
