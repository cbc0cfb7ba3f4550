package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockMutexCases: a mutex while the network is well.
var lockMutexCases = []testCase{
	lockCase("Mutex/Exclusion", needs{}, func(k *lockKit) {
		// Many goroutines of several clients; a counter on the server that is
		// read and written in two steps shows every overlap, and so does one here.
		k.modes(func(name string, opts ...locker.Option) {
			counter := name + " counter"
			var inside, grants atomic.Int64
			var all sync.WaitGroup
			for range 4 {
				c := k.client()
				for range 4 {
					all.Go(func() {
						for range 3 {
							l := k.take(c.Mutex(name, opts...))
							if n := inside.Add(1); n != 1 {
								k.Errorf("%d hold the lock at once", n)
							}
							n, _ := strconv.Atoi(k.value(counter))
							time.Sleep(time.Millisecond)
							k.direct("SET", counter, strconv.Itoa(n+1), "PX", "600000")
							k.valid(l, "while it is held")
							grants.Add(1)
							inside.Add(-1)
							k.unlock(l)
						}
					})
				}
			}
			all.Wait()
			if got := k.value(counter); got != strconv.FormatInt(grants.Load(), 10) || grants.Load() != 4*4*3 {
				k.Errorf("of %d grants the counter on the server has seen %s; want %d", grants.Load(), got, 4*4*3)
			}
		})
	}),
	lockCase("Mutex/TryLocked", needs{}, func(k *lockKit) {
		k.modes(func(name string, opts ...locker.Option) {
			const metadata = " job|7\x00\r\n \xff "
			a, b := k.client(locker.Label("the holder")), k.client()
			l := k.take(a.Mutex(name, append(opts, locker.TTL(k.times.long), locker.Metadata(metadata))...))
			begun := time.Now()
			_, err := b.Mutex(name, opts...).TryLock(k.ctx)
			if took := time.Since(begun); took > k.times.prompt {
				k.Errorf("TryLock took %v on a lock that is held", took)
			}
			k.is("TryLock", err, locker.ErrLocked)
			k.isNot("TryLock", err, locker.ErrUnavailable)
			locked, ok := errors.AsType[*locker.LockedError](err)
			if !ok {
				k.Fatalf("TryLock gave %v; want a *LockedError", err)
			}
			if locked.Name != name {
				k.Errorf("LockedError.Name is %q; want %q", locked.Name, name)
			}
			h := locked.Holder
			if h.Remaining <= k.times.long-k.time.bound || h.Remaining > k.times.long {
				k.Errorf("LockedError says that %v remain of a lease of %v", h.Remaining, k.times.long)
			}
			if want := (locker.Holder{Mode: locker.Exclusive, Holds: 1, Label: "the holder", Metadata: metadata, Token: l.Token()}); !sameHolder(h, want) {
				k.Errorf("LockedError says that the holder is %+v; want %+v", h, want)
			}
			k.unlock(l)
			if l, err := b.Mutex(name, opts...).TryLock(k.ctx); err != nil {
				k.Errorf("TryLock after the release gave %v", err)
			} else {
				k.unlock(l)
			}
		})
	}),
	lockCase("Mutex/ThreeAnswers", needs{}, func(k *lockKit) {
		k.modes(func(name string, opts ...locker.Option) {
			a, b := k.client(), k.client()
			m := a.Mutex(name, append(opts, locker.TTL(k.times.long))...)
			l := k.take(m)
			if err := k.tryUnlock(l); err != nil {
				k.Errorf("Unlock of a held lock gave %v; want nil", err)
			}
			k.free(name, "after Unlock")
			k.ended(l, k.times.prompt, locker.ErrReleased)

			l = k.take(m)
			k.direct("DEL", name)
			err := k.tryUnlock(l)
			k.is("Unlock of a lease that ran out", err, locker.ErrAbsent)
			k.is("Unlock of a lease that ran out", err, locker.ErrNotHeld)
			k.isNot("Unlock of a lease that ran out", err, locker.ErrTaken)

			l = k.take(m)
			k.direct("DEL", name)
			next := k.take(b.Mutex(name, append(opts, locker.TTL(k.times.long))...))
			err = k.tryUnlock(l)
			k.is("Unlock of a lock that is somebody else's", err, locker.ErrTaken)
			k.is("Unlock of a lock that is somebody else's", err, locker.ErrNotHeld)
			k.isNot("Unlock of a lock that is somebody else's", err, locker.ErrAbsent)
			k.valid(next, "after the late Unlock of the lease before")
			k.unlock(next)
		})
	}),
	lockCase("Mutex/UnlockIdempotent", needs{}, func(k *lockKit) {
		name := k.key("lock")
		c := k.client()
		l := k.take(c.Mutex(name, locker.TTL(k.times.long)))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { k.unlock(l) })
		}
		all.Wait()
		k.free(name, "after Unlock")
		next := k.take(k.client().Mutex(name, locker.TTL(k.times.long)))
		k.unlock(l)
		k.valid(next, "after a further Unlock of the lease before")
		k.unlock(next)
	}),
	lockCase("Mutex/TwoCommands", needs{}, func(k *lockKit) {
		// Counted on the wire, and with everything that a driver might add.
		c := k.client()
		k.warm(c)
		k.unlock(k.take(c.Mutex(k.key("before"))))
		name := k.key("lock")
		sent := k.wrote(func() { k.unlock(k.take(c.Mutex(name))) })
		if want := []string{"SET", "EVALSHA"}; fmt.Sprint(sent) != fmt.Sprint(want) {
			k.Errorf("an uncontended Lock and Unlock wrote %v; want %v", sent, want)
		}
	}),
	lockCase("Mutex/NoScript", needs{}, func(k *lockKit) {
		// The server forgets the scripts between any two steps.
		c := k.client()
		flush := func() { k.direct("SCRIPT", "FLUSH") }
		k.bothModes(func(name string, opts ...locker.Option) {
			m := c.Mutex(name, append(opts, locker.TTL(k.times.ttl))...)
			flush()
			l := k.take(m)
			flush()
			if _, err := k.client().Mutex(name, opts...).TryLock(k.ctx); !errors.Is(err, locker.ErrLocked) {
				k.Errorf("after SCRIPT FLUSH, TryLock on a held lock gave %v", err)
			}
			flush()
			time.Sleep(k.times.ttl * 3 / 2)
			k.valid(l, "renewed after SCRIPT FLUSH")
			flush()
			if err := l.Extend(k.ctx, k.times.long); err != nil {
				k.Errorf("after SCRIPT FLUSH, Extend gave %v", err)
			}
			flush()
			k.unlock(l)
			k.free(name, "after SCRIPT FLUSH and Unlock")
		})
	}),
	lockCase("Do/Released", needs{}, func(k *lockKit) {
		// However the work ends, the lock is given up.
		c := k.client()
		name := k.key("lock")
		boom := errors.New("boom")
		type key struct{}
		ctx := context.WithValue(k.ctx, key{}, "value")
		for what, end := range map[string]func(context.Context) error{
			"nil":    func(context.Context) error { return nil },
			"error":  func(context.Context) error { return boom },
			"panic":  func(context.Context) error { panic(boom) },
			"Goexit": func(context.Context) error { runtime.Goexit(); return nil },
			"Unlock": func(ctx context.Context) error {
				l, _ := locker.FromContext(ctx)
				return l.Unlock(ctx)
			},
		} {
			var worked bool
			var err error
			done := k.background(func() (driver.Value, error) {
				defer func() { _ = recover() }()
				err = c.Do(ctx, name, func(ctx context.Context) error {
					worked = true
					if l, ok := locker.FromContext(ctx); !ok {
						k.Errorf("FromContext finds no lease in Do")
					} else {
						k.valid(l, "in Do")
					}
					if ctx.Value(key{}) != "value" || ctx.Err() != nil {
						k.Errorf("the work's ctx has the value %v and the error %v", ctx.Value(key{}), ctx.Err())
					}
					return end(ctx)
				}, locker.TTL(k.times.long))
				return nil, nil
			})
			k.wait(done, k.time.bound, "Do")
			if !worked {
				k.Errorf("Do gave %v and did no work", err)
			}
			k.free(name, "after Do that ended by "+what)
			if what == "error" {
				k.is("Do", err, boom)
			} else if err != nil {
				k.Errorf("Do gave %v", err)
			}
		}
	}),
	lockCase("Do/CancelledCaller", needs{}, func(k *lockKit) {
		// A request that is cancelled leaves no lock behind.
		name := k.key("lock")
		cause := errors.New("the user went away")
		ctx, cancel := context.WithCancelCause(k.ctx)
		err := k.client().Do(ctx, name, func(ctx context.Context) error {
			cancel(cause)
			k.await(ctx.Done(), k.times.prompt, "the work's ctx has not ended with the caller's")
			return context.Cause(ctx)
		}, locker.TTL(k.times.long))
		k.is("Do", err, cause)
		k.isNot("Do", err, locker.ErrUnknown)
		k.free(name, "after Do whose ctx was cancelled")
	}),
	lockCase("Do/Lost", needs{}, func(k *lockKit) {
		name := k.key("lock")
		err := k.client().Do(k.ctx, name, func(ctx context.Context) error {
			k.direct("DEL", name)
			k.await(ctx.Done(), k.times.ttl, "the work's ctx has not ended with the lock")
			k.is("the cause of the work's ctx", context.Cause(ctx), locker.ErrLost)
			return nil
		}, locker.TTL(k.times.ttl))
		k.is("Do whose lock was lost", err, locker.ErrLost)
	}),
}
