package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// restricted starts a server with a user who may do everything except what the
// rules forbid, and returns the user's DSN.
func restricted(t *testing.T, rules ...string) (srv *servertest.Server, dsn string) {
	t.Helper()
	user := append([]string{"locks", "on", ">" + canary, "~*", "&*", "+@all"}, rules...)
	srv = servertest.Single(t, servertest.Config("user", user...))
	return srv, "redis://locks:" + canary + "@" + srv.Addr
}

// refusalTime is how long a refusal may take, on a machine that is busy; rueidislock waited for
// ever, which is here for patience.
const refusalTime = patience / 2

// requireRefused checks that an attempt fails at once with the server's refusal.
func requireRefused(t *testing.T, attempt func() error) {
	t.Helper()
	var err error
	took := timed(func() { err = attempt() })
	requireCode(t, err, "NOPERM")
	assert.NotErrorIs(t, err, locker.ErrLocked)
	assert.NotErrorIs(t, err, locker.ErrUnavailable, "the server is there, and waiting does not help")
	assert.NotContains(t, err.Error(), canary)
	assert.Less(t, took, refusalTime)
}

func TestNoPermissionForSETIsTypedAndAtOnce(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv, dsn := restricted(t, "-set")
		c := d.open(t, dsn)
		requireRefused(t, func() error { _, err := c.Mutex("k").Lock(soon(t)); return err })
		requireRefused(t, func() error { _, err := c.Mutex("k").TryLock(soon(t)); return err })
		assert.Empty(t, keys(t, srv))
	})
}

// A driver may PING for reasons of its own, which whoever waits for a message need not know.
func TestNoPermissionForPINGKeepsNobodyFromSubscribing(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv, dsn := restricted(t, "-ping")
		connector, err := locker.OpenConnector(d.name, dsn)
		require.NoError(t, err)
		conn, err := connector.Connect(soon(t))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, conn.Close()) })
		sub, err := conn.(driver.Subscriber).Subscribe(soon(t))
		require.NoError(t, err)
		require.NoError(t, sub.Add(soon(t), "a"))
		do(t, srv, "PUBLISH", "a", "1")
		message, err := sub.Receive(soon(t))
		require.NoError(t, err)
		assert.Equal(t, driver.Message{Channel: "a", Payload: "1"}, message)
		do(t, srv, "CLIENT", "KILL", "TYPE", "pubsub")
		_, err = sub.Receive(soon(t))
		assert.ErrorIs(t, err, driver.ErrGap)
	})
}

func TestNoPermissionForEVALSHAIsTypedAndAtOnce(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		for _, rule := range []string{"-evalsha", "-eval"} {
			srv, dsn := restricted(t, rule)
			c := d.open(t, dsn)
			requireRefused(t, func() error { _, err := c.Mutex("k", locker.Fenced()).Lock(soon(t)); return err })
			do(t, srv, "SET", "taken", "x", "PX", "60000")
			requireRefused(t, func() error { _, err := c.Mutex("taken").Lock(soon(t)); return err })
			requireRefused(t, func() error { _, err := c.Inspect(soon(t), "taken"); return err })

			// A plain lock is taken without scripts, and cannot be kept.
			lease := mustTryLock(t, c.Mutex("k", locker.TTL(time.Second)))
			<-lease.Context().Done()
			requireCode(t, lease.Err(), "NOPERM")
			assert.ErrorIs(t, lease.Err(), locker.ErrLost)
			var err error
			took := timed(func() { err = lease.Unlock(soon(t)) })
			requireCode(t, err, "NOPERM")
			assert.Less(t, took, refusalTime)
			eventually(t, "the TTL frees it", func() bool { return !exists(t, srv, "k") })
		}
	})
}

func TestNoPermissionForOurSideKeysIsTypedAndAtOnce(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		_, dsn := restricted(t, "resetkeys", "~app:*")
		c := d.open(t, dsn)
		requireRefused(t, func() error { _, err := c.Mutex("app:k", locker.Fenced()).Lock(soon(t)); return err })
		requireRefused(t, func() error { _, err := c.Mutex("other").Lock(soon(t)); return err })
		_, dsn = restricted(t, "resetkeys", "~app:*", "~__golocker:*")
		c = d.open(t, dsn)
		require.NoError(t, mustLock(t, c.Mutex("app:k", locker.Fenced())).Unlock(soon(t)))
	})
}

// Without wake-ups a waiter polls, from 8 to 256 ms apart.
func TestNoPermissionToSubscribeOrPublishFallsBackToPolling(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		for name, rules := range map[string][]string{
			"SUBSCRIBE": {"-subscribe"},
			"channels":  {"resetchannels"},
			"PUBLISH":   {"-publish"},
			"PUBSUB":    {"-pubsub"},
		} {
			srv, dsn := restricted(t, rules...)
			holder, waiter := d.open(t, dsn), d.open(t, dsn)
			for range 2 {
				lease := mustLock(t, holder.Mutex("k"))
				waiting := goLock(soon(t), waiter.Mutex("k"))
				<-time.After(300 * time.Millisecond)
				unlocked := time.Now()
				require.NoError(t, lease.Unlock(soon(t)), "%s: a release must not fail for want of a wake-up", name)
				next := had(t, waiting)
				assert.Less(t, next.at.Sub(unlocked), pollBound, name)
				require.NoError(t, next.lease.Unlock(soon(t)), name)
			}
			assert.Empty(t, keys(t, srv), name)
		}
	})
}

// Some managed services have none of these.
func TestWithoutINFOAndCONFIGAndCLIENT(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		_, dsn := restricted(t, "-info", "-config", "-client", "-role", "-cluster")
		holder, waiter := d.open(t, dsn), d.open(t, dsn)
		lease := mustTryLock(t, holder.Mutex("k"))
		waiting := goLock(soon(t), waiter.Mutex("k"))
		<-time.After(200 * time.Millisecond)
		unlocked := time.Now()
		require.NoError(t, lease.Unlock(soon(t)))
		next := had(t, waiting)
		assert.Less(t, next.at.Sub(unlocked), pollBound)
		require.NoError(t, next.lease.Unlock(soon(t)))
	})
}

// A password that is changed under a client: what is held stays so while its
// connection lives, and what is refused says why.
func TestAWrongPasswordIsTypedAndAtOnce(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Password("right"))
		for _, dsn := range []string{"redis://:" + canary + "@" + srv.Addr, "redis://nobody:" + canary + "@" + srv.Addr, "redis://" + srv.Addr} {
			c := d.open(t, dsn)
			var err error
			// A script has so many arguments that who has not said who it is is refused them.
			for _, lock := range []*locker.Mutex{c.Mutex("k"), c.Mutex("k", locker.Fenced())} {
				took := timed(func() { _, err = lock.Lock(soon(t)) })
				require.Error(t, err)
				assert.Less(t, took, refusalTime)
				assert.False(t, errors.Is(err, locker.ErrLocked))
				assert.NotContains(t, err.Error(), canary)
				assert.Regexp(t, "WRONGPASS|NOAUTH", err.Error())
				var refusal *driver.ServerError
				assert.ErrorAs(t, err, &refusal)
				assert.NotErrorIs(t, err, locker.ErrUnavailable, "the server is there")
			}
		}
	})
}
