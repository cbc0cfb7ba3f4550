package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/golocker/golocker/locker"
)

// reentrantNestedCases: what can be taken under a lease, and what cannot.
var reentrantNestedCases = []testCase{
	reentrantCase("Do", func(k *lockKit) {
		// Work under the lock calls what takes the same lock. That costs nothing,
		// and however it ends the lock is given up once.
		c := k.client()
		k.warm(c, locker.Reentrant())
		boom := errors.New("boom")
		for what, end := range map[string]func(outer *locker.Lease) error{
			"nil":    func(*locker.Lease) error { return nil },
			"error":  func(*locker.Lease) error { return boom },
			"panic":  func(*locker.Lease) error { panic(boom) },
			"Unlock": func(outer *locker.Lease) error { return outer.Unlock(k.ctx) },
		} {
			name := k.key(what)
			m := c.Mutex(name, locker.Reentrant(), locker.TTL(k.times.long))
			deepest := false
			err := func() (err error) {
				defer func() {
					if recover() != nil {
						err = boom
					}
				}()
				return m.Do(k.ctx, func(ctx context.Context) error {
					outer, _ := locker.FromContext(ctx)
					return m.Do(ctx, func(ctx context.Context) error {
						deepest = true
						inner, ok := locker.FromContext(ctx)
						if !ok || inner == outer || inner.Owner() != outer.Owner() {
							k.Errorf("in the inner Do the lease is %v; want another of the same owner", inner)
						}
						k.valid(inner, "in the inner Do")
						if n := k.sent(name); n != 1 {
							k.Errorf("Do in Do sent %d commands; want 1", n)
						}
						return end(outer)
					})
				})
			}()
			if !deepest {
				k.Fatalf("Do in Do gave %v and did no work", err)
			}
			if what == "nil" && err != nil || (what == "error" || what == "panic") && !errors.Is(err, boom) {
				k.Errorf("Do in Do that ended by %s gave %v", what, err)
			}
			k.free(name, "after Do in Do that ended by "+what)
			if n := k.sent(name); n != 2 {
				k.Errorf("Do in Do sent %d commands in all; want 2", n)
			}
		}
	}),
	reentrantCase("Nested", func(k *lockKit) {
		// A wait for a lease that one's own context carries would never end. The caller
		// is told so at once, and nothing is left of the attempt.
		c := k.client()
		type options = []locker.Option
		outer, inner := locker.As(locker.NamedOwner("outer")), locker.As(locker.NamedOwner("inner"))
		for what, lock := range map[string]struct{ held, wanted options }{
			"a plain mutex":           {},
			"a fenced mutex":          {options{locker.Fenced()}, options{locker.Fenced()}},
			"another owner":           {options{locker.Reentrant(), outer}, options{locker.Reentrant(), inner}},
			"a writer under a reader": {options{locker.ForReading(), outer}, options{locker.ForWriting(), inner}},
			"a reader under a writer": {options{locker.ForWriting(), outer}, options{locker.ForReading(), inner}},
		} {
			name := k.key(what)
			err := c.Mutex(name, append(lock.held, locker.TTL(k.times.long))...).Do(k.ctx, func(ctx context.Context) error {
				if l, err := c.Mutex(k.key("another lock")).Lock(ctx); err != nil {
					k.Errorf("Lock of another lock gave %v", err)
				} else {
					k.unlock(l)
				}
				m := c.Mutex(name, lock.wanted...)
				err := k.refused(k.later(ctx, m), k.times.prompt, what+" under the same lock")
				deadlock, ok := errors.AsType[*locker.DeadlockError](err)
				if !ok || !deadlock.Nested || deadlock.Name != name || !errors.Is(err, locker.ErrDeadlock) {
					k.Errorf("%s under the same lock: Lock gave %v; want a *DeadlockError", what, err)
				}
				_, err = m.TryLock(ctx)
				k.is(what+" under the same lock: TryLock, which does not wait,", err, locker.ErrLocked)
				if s := k.inspect(name); s.Waiters != 0 || len(s.Holders) != 1 {
					k.Errorf("%s under the same lock has left %+v", what, s)
				}
				l, _ := locker.FromContext(ctx)
				k.valid(l, "after "+what+" was refused")
				return nil
			})
			if err != nil {
				k.Errorf("Do gave %v", err)
			}
			k.free(name, "after Do")
		}
	}),
	reentrantCase("KindMismatch", func(k *lockKit) {
		// On one name all kinds exclude each other: a caller that expected another kind
		// is told so at once, and does not disturb the holder.
		c := k.client()
		kinds := map[string][]locker.Option{
			"mutex":           {locker.Fenced()},
			"reentrant lock":  {locker.Reentrant()},
			"read-write lock": {locker.ForReading()},
		}
		for held, opts := range kinds {
			name := k.key(held)
			l := k.take(c.Mutex(name, append(opts, locker.TTL(k.times.long))...))
			for wanted, others := range kinds {
				if wanted == held {
					continue
				}
				what := fmt.Sprintf("Lock of a %s while it is held as a %s", wanted, held)
				err := k.refused(k.later(k.ctx, c.Mutex(name, others...)), k.times.prompt, what)
				foreign, ok := errors.AsType[*locker.ForeignError](err)
				if !ok || foreign.Type != held || foreign.Name != name {
					k.Errorf("%s gave %v; want a *ForeignError that names the %s", what, err, held)
				}
				if _, err := c.Mutex(name, others...).Attach(k.ctx, "0123456789abcdef0123456789abcdef"); err == nil {
					k.Errorf("Attach as a %s succeeded on a %s", wanted, held)
				}
			}
			k.valid(l, "after others wanted it to be of another kind")
			k.unlock(l)
			k.free(name, "after Unlock")
		}
		for foreign, create := range map[string][]string{
			"string": {"SET", k.key("string"), "by hand", "PX", "600000"},
			"hash":   {"HSET", k.key("hash"), "precious", "1"},
			"list":   {"RPUSH", k.key("a list"), "precious"},
		} {
			name := create[1]
			k.direct(create...)
			for kind, opts := range kinds {
				if kind == "mutex" {
					continue // Lock/Mutex/ForeignValue
				}
				err := k.refused(k.later(k.ctx, c.Mutex(name, opts...)), k.times.prompt, "Lock of a "+kind+" on a foreign "+foreign)
				k.is("Lock of a "+kind+" on a foreign "+foreign, err, locker.ErrForeign)
			}
			if v := k.direct("TYPE", name); v != foreign {
				k.Errorf("a foreign %s has become a %s", foreign, show(v))
			}
		}
	}),
}
