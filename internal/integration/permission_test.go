package integration_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// A permitted is a server with the user of docs/servers.md, and clients that are that
// user.
type permitted struct {
	srv  *servertest.Server
	user servertest.User
	a, b *locker.Client
}

func newPermitted(t *testing.T, d driverUnderTest) permitted {
	t.Helper()
	user := servertest.LocksUser(t)
	srv := servertest.Single(t, servertest.Users(user))
	dsn := "redis://" + user.Name + ":" + user.Password + "@" + srv.Addr
	return permitted{srv: srv, user: user, a: d.open(t, dsn, locker.TTL(quorumTTL)), b: d.open(t, dsn, locker.TTL(quorumTTL))}
}

// set changes what the user may do; nil gives it all that is documented again.
func (p permitted) set(t *testing.T, rules ...string) {
	t.Helper()
	if rules == nil {
		rules = append([]string{"reset"}, p.user.Rules...)
	}
	do(t, p.srv, append([]string{"ACL", "SETUSER", p.user.Name}, servertest.Rules(t, rules...)...)...)
}

// neededCommands are the permissions of docs/servers.md without which there is an error:
// not those to connect, and not those that README and docs say can be done without.
func neededCommands(t *testing.T) []string {
	t.Helper()
	var commands []string
	for _, rule := range servertest.LocksUser(t).Rules {
		name, ok := strings.CutPrefix(rule, "+")
		switch name {
		case "publish", "pubsub|numsub", "subscribe", "unsubscribe", "ping", "hello", "auth", "select", "info", "client|setname":
			ok = false
		}
		if ok {
			commands = append(commands, name)
		}
	}
	require.Greater(t, len(commands), 20)
	return commands
}

// requirePermissionError checks that err says what to grant: that rule, or all.
func requirePermissionError(t *testing.T, err error, rule, what string) {
	t.Helper()
	refused, ok := errors.AsType[*locker.PermissionError](err)
	require.True(t, ok, "%s without %s: %v", what, rule, err)
	assert.ErrorIs(t, err, locker.ErrPermission)
	assert.Contains(t, strings.Fields(refused.Grant), rule, "%s: %v", what, err)
	assert.Contains(t, err.Error(), rule)
	assert.NotErrorIs(t, err, locker.ErrLocked)
	assert.NotErrorIs(t, err, locker.ErrUnavailable, "the server is there, and waiting does not help")
}

// Whatever one permission is missing, each call does without it or says so at once.
func TestAMissingPermissionIsNamedAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		p := newPermitted(t, d)
		missed := 0
		for _, command := range neededCommands(t) {
			if p.without(t, command) {
				missed++
			}
			assertMortal(t, p.srv)
			p.srv.Flush()
		}
		assert.Greater(t, missed, 15)
	})
}

// without makes every call, on locks of every kind, without the permission for a command.
// It returns whether any misses it.
func (p permitted) without(t *testing.T, command string) (missed bool) {
	rule := "+" + command
	try := func(what string, kind lockKind, call func() error) {
		t.Helper()
		var err error
		took := timed(func() { err = call() })
		assert.Less(t, took, patience, "%s of a %s lock without %s", what, kind.name, rule)
		if err != nil && !errors.Is(err, locker.ErrNotHeld) {
			missed = true
			requirePermissionError(t, err, rule, what+" of a "+kind.name+" lock")
		}
	}
	var holders []*locker.Lease
	var waits []<-chan lockResult
	for _, kind := range lockKinds {
		holders = append(holders, mustLock(t, kind.against(p.a, "orders:"+command+":"+kind.name, locker.TTL(time.Hour))))
	}
	p.set(t, "-"+command)
	do(t, p.srv, "SCRIPT", "FLUSH")
	for i, kind := range lockKinds {
		name := holders[i].Name()
		try("Inspect", kind, func() error { _, err := p.b.Inspect(soon(t), name); return err })
		try("Extend", kind, func() error { return holders[i].Extend(soon(t), time.Hour) })
		waits = append(waits, goLock(soon(t), kind.on(p.b, name)))
	}
	<-time.After(100 * time.Millisecond)
	for i, kind := range lockKinds {
		name := holders[i].Name() + ":free"
		try("Unlock", kind, func() error { return holders[i].Unlock(soon(t)) })
		id := strings.Repeat("a", 32)
		try("Lock", kind, func() error {
			lease, err := kind.on(p.b, name).Lock(soon(t))
			if err == nil {
				try("Detach", kind, func() error {
					detached, err := lease.Detach(soon(t), time.Minute)
					if err == nil {
						id = detached
					}
					return err
				})
			}
			return err
		})
		try("Attach", kind, func() error { _, err := kind.on(p.a, name).Attach(soon(t), id); return err })
		try("ForceRelease", kind, func() error { _, err := p.a.ForceRelease(soon(t), name); return err })
	}
	p.set(t) // also for those who wait because there is nothing amiss
	for i, kind := range lockKinds {
		select {
		case r := <-waits[i]:
			try("Lock of a held lock", kind, func() error { return r.err })
			if r.err == nil {
				try("Unlock of a lock that was waited for", kind, func() error { return r.lease.Unlock(soon(t)) })
			}
		case <-time.After(patience):
			require.FailNow(t, "a waiter without a permission waits", "%s, %s", rule, kind.name)
		}
	}
	return missed
}

// The patterns of the user have to cover the name, our own keys, and our channels.
func TestAMissingPatternIsNamed(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		p := newPermitted(t, d)
		for _, kind := range lockKinds {
			_, err := kind.on(p.a, "invoices:1").Lock(soon(t))
			requirePermissionError(t, err, "~<names>", kind.name)
			p.set(t, "resetkeys", "~orders:*")
			if kind.name != plainKind.name { // which needs them only where it has to wait
				_, err = kind.on(p.a, "orders:1").Lock(soon(t))
				requirePermissionError(t, err, "~__golocker:*", kind.name)
			}
			do(t, p.srv, "SET", "orders:2", "somebody's", "PX", "60000")
			_, err = plainKind.on(p.a, "orders:2").Lock(soon(t))
			requirePermissionError(t, err, "~__golocker:*", kind.name)
			p.set(t)
		}
	})
}

// A holder whose permission is withdrawn learns it by its next renewal at the latest, and
// who waits by its next poll. Both are told what is missing.
func TestAPermissionThatIsWithdrawnEndsHoldingAndWaiting(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		p := newPermitted(t, d)
		type waiting struct {
			kind   lockKind
			held   *locker.Lease
			result <-chan lockResult
		}
		var all []waiting
		for _, kind := range lockKinds {
			name := "orders:" + kind.name
			held := mustLock(t, kind.against(p.a, name))
			all = append(all, waiting{kind, held, goLockWaiting(t, soon(t), kind.on(p.b, name), p.a)})
		}
		p.set(t, "-evalsha", "-eval")
		for _, w := range all {
			select {
			case r := <-w.result:
				requirePermissionError(t, r.err, "+evalsha", "a waiter of a "+w.kind.name+" lock")
			case <-time.After(patience):
				require.FailNow(t, "it waits for a permission", w.kind.name)
			}
			if err := w.held.Extend(soon(t), time.Minute); !errors.Is(err, locker.ErrLost) { // on a machine that is busy
				requirePermissionError(t, err, "+evalsha", "Extend")
			}
		}
		for _, w := range all {
			err := lossOf(t, w.held)
			assert.ErrorIs(t, err, locker.ErrLost)
			// On a machine that is busy the last renewal may have had no answer at all.
			assert.True(t, isAny(err, locker.ErrPermission, context.DeadlineExceeded, os.ErrDeadlineExceeded), "%s: %v", w.kind.name, err)
			requirePermissionError(t, w.held.Unlock(soon(t)), "+evalsha", "Unlock")
		}
		// When it is back all is as before, and what was refused is done after all.
		p.set(t)
		for _, w := range all {
			require.NoError(t, mustLock(t, w.kind.on(p.b, w.held.Name())).Unlock(soon(t)))
		}
		eventually(t, "nothing is left", func() bool { return len(keys(t, p.srv)) == 0 })
	})
}

// A user that is deleted, or gets another password, is refused as it connects again.
func TestAUserThatIsDeletedIsToldAtOnce(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		p := newPermitted(t, d)
		admin := d.client(t, p.srv.Addr)
		held := mustLock(t, p.a.Mutex("orders:1"))
		waits := goLockWaiting(t, soon(t), p.b.Mutex("orders:1"), admin)
		do(t, p.srv, "ACL", "DELUSER", p.user.Name)
		select {
		case r := <-waits:
			requireCode(t, r.err, "WRONGPASS")
			assert.NotErrorIs(t, r.err, context.DeadlineExceeded)
			assert.NotErrorIs(t, r.err, locker.ErrUnavailable)
		case <-time.After(patience):
			require.FailNow(t, "it waits for a user that is gone")
		}
		assert.ErrorIs(t, lossOf(t, held), locker.ErrLost)
		_, err := p.a.Mutex("orders:2").TryLock(soon(t))
		requireCode(t, err, "WRONGPASS")
	})
}

// The rules that an error tells are those of the docs.
func TestThePermissionErrorNamesWhatTheDocsSay(t *testing.T) {
	t.Parallel()
	srv, dsn := restricted(t, "-zadd")
	c := drivers[0].open(t, dsn)
	do(t, srv, "SET", "k", "somebody's", "PX", "60000")
	_, err := c.Mutex("k").Lock(soon(t))
	refused, ok := errors.AsType[*locker.PermissionError](err)
	require.True(t, ok, err)
	if strings.HasPrefix(refused.Grant, "+zadd") {
		return // this server tells
	}
	documented := servertest.LocksUser(t).Rules
	for _, rule := range strings.Fields(refused.Grant) {
		assert.True(t, rule == "~<names>" || slices.Contains(documented, rule), rule)
	}
	for _, rule := range documented {
		if rule[0] == '+' {
			assert.Contains(t, strings.Fields(refused.Grant), rule)
		}
	}
}
