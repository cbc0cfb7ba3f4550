package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// The key and the certificate of a client lie at a path that tells something, and are
// known to a Config. Neither is in anything that can be printed.
func TestNoTLSKeyIsShown(t *testing.T) {
	t.Parallel()
	srv := servertest.TLS(t, servertest.Config("tls-auth-clients", "yes"))
	dir := filepath.Join(t.TempDir(), canary)
	require.NoError(t, os.Mkdir(dir, 0o700))
	for from, to := range map[string]string{srv.ClientCertFile: "cert", srv.ClientKeyFile: "key", srv.CAFile: "ca"} {
		pem, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), pem, 0o600))
	}
	good := "rediss://" + srv.Addr + "?tls_ca=" + dir + "/ca&tls_cert=" + dir + "/cert&tls_key=" + dir + "/key"
	bad := []string{
		"rediss://" + srv.Addr + "?tls_ca=" + dir + "/ca&tls_cert=" + dir + "/key&tls_key=" + dir + "/cert",
		"rediss://" + srv.Addr + "?tls_ca=" + dir + "/key",
		"rediss://" + srv.Addr + "?tls_ca=" + dir,
	}
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		c := &confessional{shown: map[string]string{}}
		for _, dsn := range bad {
			_, err := locker.Open(d.name, dsn)
			require.Error(t, err)
			c.hear("error of Open", err)
		}
		confess(t, c, d, "TLS", good)
		for what, text := range c.shown {
			assert.Fail(t, "the path or the key is shown", "%s: %s", what, text)
		}
	})
}

// Every error that a user's requests can end with, however it is wrapped or printed, and
// every value that it is about.
func TestNoPasswordIsInWhatGoesWrongLater(t *testing.T) {
	t.Parallel()
	user := servertest.LocksUser(t)
	user.Rules = append(user.Rules, ">"+canary, "<"+user.Password)
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		c := &confessional{shown: map[string]string{}}
		srv := servertest.Single(t, servertest.Users(user))
		dsn := "redis://" + user.Name + ":" + canary + "@" + srv.Addr
		a, b := d.open(t, dsn, locker.TTL(renewedTTL)), d.open(t, dsn)
		hear := func(what string, err error) {
			t.Helper()
			require.Error(t, err, what)
			c.hear(what, err)
			c.hear(what+", wrapped", fmt.Errorf("wrapped: %w", err))
			c.hear(what+", joined", errors.Join(err, err))
			for ; err != nil; err = errors.Unwrap(err) {
				c.hear(what+", unwrapped", err)
			}
		}
		held := mustLock(t, a.Mutex("orders:1"))
		_, err := b.Mutex("orders:1").TryLock(soon(t))
		hear("LockedError", err)
		_, err = b.Mutex("orders:1").Lock(within(t, 50*time.Millisecond))
		hear("WaitError", err)
		_, err = b.Mutex("invoices:1").TryLock(soon(t))
		hear("PermissionError", err)
		do(t, srv, "SET", "orders:2", "somebody's")
		_, err = b.Mutex("orders:2").TryLock(soon(t))
		hear("ForeignError", err)
		c.hear("Lease", held)
		c.hear("Client", b)
		c.hear("context", held.Context())
		status, err := b.Inspect(soon(t), "orders:1")
		require.NoError(t, err)
		c.hear("Status", status)

		do(t, srv, "ACL", "SETUSER", user.Name, "resetpass", ">another")
		do(t, srv, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		hear("LostError", lossOf(t, held))
		hear("loss by context.Cause", context.Cause(held.Context()))
		_, err = a.Mutex("orders:3").TryLock(soon(t))
		hear("after the password was changed", err)
		hear("ServerError in a QuorumError", quorumOf(t, d, srv.Addr, dsn))
		srv.Kill()
		_, err = b.Mutex("orders:3").TryLock(soon(t))
		hear("ErrUnavailable", err)
		c.hear("error of Close", b.Close())
		_, err = b.Mutex("orders:3").TryLock(soon(t))
		hear("ErrClosed", err)
		for what, text := range c.shown {
			assert.Fail(t, "the password is shown", "%s: %s", what, text)
		}
	})
}

// quorumOf returns the error of a quorum one node of which is a server that refuses the
// password of dsn, as all do.
func quorumOf(t *testing.T, d driverUnderTest, addr, dsn string) error {
	t.Helper()
	var nodes []driver.Connector
	for range 3 {
		cfg, err := driver.ParseDSN(dsn)
		require.NoError(t, err)
		connector, err := connectorOf(d.name, cfg)
		require.NoError(t, err)
		nodes = append(nodes, connector)
	}
	q, err := locker.NewQuorum(nodes)
	require.NoError(t, err)
	defer q.Close()
	_, err = q.Mutex("orders:1").TryLock(soon(t))
	return err
}

// Who knows the id of a lease can take it up. Only Detach tells it.
func TestTheIDOfALeaseIsInNothingThatIsPrinted(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		a, b := d.client(t, srv.Addr), d.client(t, srv.Addr)
		for _, kind := range lockKinds {
			held := mustLock(t, kind.against(a, kind.name))
			_, locked := kind.on(b, kind.name).TryLock(soon(t))
			require.Error(t, locked)
			status, err := b.Inspect(soon(t), kind.name)
			require.NoError(t, err)
			texts := fmt.Sprintf("%v %+v %s %q\n%v %+v\n%+v %#v", locked, locked, locked, locked, held, held, status, status)
			id, err := held.Detach(soon(t), time.Minute)
			require.NoError(t, err)
			assert.NotContains(t, texts, id, kind.name)
			_, err = b.Mutex(kind.name+" of another").Attach(soon(t), id)
			require.ErrorIs(t, err, locker.ErrAbsent)
			assert.NotContains(t, fmt.Sprintf("%v %+v", err, err), id)
		}
	})
}
