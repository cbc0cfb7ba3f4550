package conformance

import (
	"errors"
	"strings"
	"time"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockNameCases: the name is the server's key, whatever it holds, and what else
// may stand there.
var lockNameCases = []testCase{
	lockCase("Mutex/BinaryName", needs{}, func(k *lockKit) {
		// Names that differ in any byte are different locks, and each is the very
		// key that it says. Some look like hash tags.
		var held []*locker.Lease
		c := k.client()
		k.modes(func(name string, opts ...locker.Option) {
			p := name
			for _, name := range []string{
				p, p + "\x00", p + "\x00\x00", p + "\r\n", p + "\r\n+OK\r\n", p + "\xff\xfe", p + "ä", p + "a\u0308",
				p + " ", " " + p, p + "\t", p + "'\"\\", p + "|m|" + allBytes,
				"}" + p, "{}" + p, "a}b" + p, "{" + p, "{a}" + p,
				p + strings.Repeat("x", 1024-len(p)),
			} {
				l := k.take(c.Mutex(name, append(opts, locker.TTL(k.times.long))...))
				held = append(held, l)
				if !strings.HasPrefix(k.value(name), "gl1|m|") {
					k.Errorf("the lock %q is not at its key on the server", name)
				}
				if _, err := c.Mutex(name, opts...).TryLock(k.ctx); !errors.Is(err, locker.ErrLocked) {
					k.Errorf("TryLock on %q, which is held, gave %v", name, err)
				}
			}
		})
		for _, l := range held {
			k.valid(l, l.Name())
			k.unlock(l)
			k.free(l.Name(), "after Unlock")
		}
	}),
	lockCase("Mutex/Interop", needs{}, func(k *lockKit) {
		// A hand-written lock, SET key id NX PX ttl, and ours exclude each other.
		c := k.client(locker.Prefix(k.prefix))
		name := k.key("lock")
		m := c.Mutex("lock", locker.TTL(k.times.long))
		byHand := []string{"SET", name, "by hand", "NX", "PX", "600000"}
		l := k.take(m)
		if v := k.direct(byHand...); v != nil {
			k.Errorf("SET NX by hand gave %s while our lock is held", show(v))
		}
		if left := k.left(name); left <= 0 || left > k.times.long {
			k.Errorf("the TTL of our lock is %v; want at most %v", left, k.times.long)
		}
		k.unlock(l)
		if v := k.direct(byHand...); v != "OK" {
			k.Errorf("SET NX by hand gave %s while the lock is free", show(v))
		}
		_, err := m.TryLock(k.ctx)
		locked, ok := errors.AsType[*locker.LockedError](err)
		if !ok {
			k.Fatalf("TryLock gave %v while a hand-written lock is held; want a *LockedError", err)
		}
		if h := locked.Holder; !h.Foreign || h.Remaining <= 0 || h.Remaining > 10*time.Minute {
			k.Errorf("the holder of a hand-written lock is %+v", h)
		}
		g := k.later(k.ctx, m)
		k.waiters(name, 1)
		if k.value(name) != "by hand" {
			k.Errorf("our waiter overwrote a hand-written lock")
		}
		k.direct("DEL", name)
		k.unlock(k.granted(g, k.times.poll+k.times.grant, "a waiter for a hand-written lock that is released"))
	}),
	lockCase("Mutex/ForeignValue", needs{}, func(k *lockKit) {
		// What is not a lock and does not go away is reported by every call, and neither
		// waited for nor deleted.
		c := k.client()
		for kind, create := range map[string][]string{
			"string": {"SET", k.key("string"), "precious"},
			"hash":   {"HSET", k.key("hash"), "precious", "1"},
			"list":   {"RPUSH", k.key("list"), "precious"},
			"set":    {"SADD", k.key("set"), "precious"},
			"zset":   {"ZADD", k.key("zset"), "1", "precious"},
		} {
			name := create[1]
			k.direct(create...)
			k.modes(func(_ string, opts ...locker.Option) {
				m := c.Mutex(name, opts...)
				calls := map[string]func() error{
					"Lock":         func() error { _, err := m.Lock(k.ctx); return err },
					"TryLock":      func() error { _, err := m.TryLock(k.ctx); return err },
					"Inspect":      func() error { _, err := c.Inspect(k.ctx, name); return err },
					"ForceRelease": func() error { _, err := c.ForceRelease(k.ctx, name); return err },
				}
				for what, f := range calls {
					call := k.background(func() (driver.Value, error) { return nil, f() })
					k.wait(call, k.times.grant, what+" on a "+kind)
					k.is(what+" on a "+kind, call.err, locker.ErrForeign)
					k.isNot(what+" on a "+kind, call.err, locker.ErrLocked)
					if f, ok := errors.AsType[*locker.ForeignError](call.err); ok && (f.Type != kind || f.Name != name) {
						k.Errorf("%s gave %+v; want the type %s", what, f, kind)
					}
				}
			})
			if v := k.direct("TYPE", name); v != kind {
				k.Errorf("a foreign %s has become a %s", kind, show(v))
			}
		}
		if v := k.value(k.key("string")); v != "precious" {
			k.Errorf("a foreign string has become %q", v)
		}
		if left := k.left(k.key("string")); left >= 0 {
			k.Errorf("a foreign string got a TTL of %v", left)
		}
	}),
	lockCase("Mutex/Healed", needs{}, func(k *lockKit) {
		// Somebody removed the TTL of a lock whose holder crashed. A waiter sees
		// that the lock is ours, and gives the holder the whole of its TTL once more.
		k.bothModes(func(name string, opts ...locker.Option) {
			m := k.client().Mutex(name, append(opts, locker.TTL(k.times.ttl), locker.NoRenewal())...)
			k.take(m)
			if v := k.direct("PERSIST", name); v != int64(1) {
				k.Fatalf("PERSIST gave %s: the lock had no TTL", show(v))
			}
			begun := time.Now()
			l := k.granted(k.later(k.ctx, m), k.times.ttl+k.times.poll+k.times.grant, "a waiter for a lock without TTL")
			if took := time.Since(begun); took < k.times.ttl-10*time.Millisecond {
				k.Errorf("a lock without TTL was taken over after %v; its holder may live and have a TTL of %v", took, k.times.ttl)
			}
			k.unlock(l)
		})
	}),
	lockCase("Mutex/PrefixOfId", needs{}, func(k *lockKit) {
		// A holder whose id begins with another holder's id is somebody else.
		c := k.client()
		changes := map[string]func(id string) string{
			"longer":  func(id string) string { return id + "0" },
			"shorter": func(id string) string { return id[:len(id)-1] },
		}
		calls := map[string]func(m *locker.Mutex, l *locker.Lease, id string) error{
			"Unlock": func(_ *locker.Mutex, l *locker.Lease, _ string) error { return k.tryUnlock(l) },
			"Extend": func(_ *locker.Mutex, l *locker.Lease, _ string) error { return l.Extend(k.ctx, 2*k.times.long) },
			"Attach": func(m *locker.Mutex, _ *locker.Lease, id string) error { _, err := m.Attach(k.ctx, id); return err },
		}
		k.modes(func(name string, opts ...locker.Option) {
			for change, changed := range changes {
				for what, call := range calls {
					m := c.Mutex(name, append(opts, locker.TTL(k.times.long), locker.NoRenewal())...)
					l := k.take(m)
					fields := strings.Split(k.value(name), "|")
					if len(fields) < 7 {
						k.Fatalf("the record %q is not in the documented format", fields)
					}
					id := fields[2]
					fields[2] = changed(id)
					theirs := strings.Join(fields, "|")
					k.direct("SET", name, theirs, "PX", "600000")
					k.is(what+" of a lease while the holder's id is a "+change+" one", call(m, l, id), locker.ErrTaken)
					if v := k.value(name); v != theirs {
						k.Errorf("%s changed the record of a holder with a %s id to %q", what, change, v)
					}
					k.direct("DEL", name)
				}
			}
		})
	}),
}
