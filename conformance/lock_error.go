package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockErrorCases: "it is locked", "the server cannot be reached" and "the server
// refuses" are three things.
var lockErrorCases = []testCase{
	lockCase("Mutex/WaitErrorBoth", needs{}, func(k *lockKit) {
		// A wait that ends without the lock tells what ended it and why the lock
		// was not acquired.
		k.modes(func(name string, opts ...locker.Option) {
			held := k.take(k.client(locker.Label("the holder")).Mutex(name, append(opts, locker.TTL(k.times.long))...))
			c := k.client()
			k.warm(c)
			why := errors.New("shutting down")
			begun := time.Now()
			patience := k.time.flight // by then the client has heard that the lock is held
			ctx, cancel := context.WithTimeoutCause(k.ctx, patience, why)
			defer cancel()
			_, err := c.Mutex(name, opts...).Lock(ctx)
			k.waitError(err, why, context.DeadlineExceeded)
			if took := time.Since(begun); took < patience || took > patience+k.times.prompt {
				k.Errorf("Lock took %v; its ctx ended after %v", took, patience)
			}
			_, err = c.Mutex(name, append(opts, locker.WaitTimeout(patience))...).Lock(k.ctx)
			k.waitError(err, locker.ErrWaitTimeout)
			_, err = c.Mutex(name, append(opts, locker.Retry(locker.Attempts(2, locker.Constant(k.time.short))))...).Lock(k.ctx)
			k.is("Lock with two attempts", err, locker.ErrLocked)
			k.unlock(held)
		})
	}),
	lockCase("Mutex/UnreachableNotLocked", needs{}, func(k *lockKit) {
		unavailable := func(what string, err error) {
			k.checkText(err)
			k.is(what, err, locker.ErrUnavailable)
			k.isNot(what, err, locker.ErrLocked)
		}
		// At the first contact an error more likely means a wrong address than an outage.
		k.wire.Refuse(true)
		c := k.client()
		ctx, cancel := k.within(4 * k.time.bound)
		defer cancel()
		_, err := c.Mutex(k.key("lock")).TryLock(ctx)
		unavailable("TryLock without a server", err)
		_, err = c.Mutex(k.key("lock")).Lock(ctx)
		unavailable("Lock without a server", err)
		if ctx.Err() != nil {
			k.Errorf("the first Lock of a client without a server returned only with its ctx")
		}
		k.wire.Refuse(false)
		k.warm(c)
		// Later it means an outage, which is waited out.
		k.modes(func(name string, opts ...locker.Option) {
			m := c.Mutex(name, opts...)
			rule := k.wire.On(wire.Match{Arg: name, Times: -1}, wire.Answer("-LOADING Redis is loading the dataset in memory\r\n"))
			_, err = m.TryLock(k.ctx)
			unavailable("TryLock while the server is loading", err)
			if reply, ok := errors.AsType[*driver.ServerError](err); !ok || reply.Code != "LOADING" {
				k.Errorf("TryLock while the server is loading gave %v; want the server's reply in it", err)
			}
			short, cancel := k.within(k.time.short)
			_, err = m.Lock(short)
			unavailable("Lock while the server is loading", err)
			k.is("Lock while the server is loading", err, context.DeadlineExceeded)
			cancel()
			g := k.later(k.ctx, m)
			time.Sleep(k.time.short)
			rule.Remove()
			k.unlock(k.granted(g, k.times.poll+k.times.grant, "Lock through an outage"))
			// A caller whose time is over before that of a request is not left in doubt either.
			rule = k.wire.On(wire.Match{Arg: name, Times: -1}, wire.HoldReply)
			for what, take := range map[string]func(context.Context) (*locker.Lease, error){"Lock": m.Lock, "TryLock": m.TryLock} {
				short, cancel := k.within(k.time.short)
				_, err = take(short)
				unavailable(what+" while the server is silent, its ctx ended,", err)
				cancel()
			}
			rule.Remove()
			rule.Release()
			k.soonFree(name, "after callers have given up on a silent server")
		})
	}),
	lockCase("Mutex/Refusal", needs{}, func(k *lockKit) {
		// A refusal that waiting cannot mend is returned at once, as the server said it.
		c := k.client()
		k.warm(c)
		for _, text := range []string{
			"NOPERM this user has no permissions to run the command",
			"OOM command not allowed when used memory > 'maxmemory'.",
			"WRONGPASS invalid username-password pair or user is disabled.",
		} {
			k.modes(func(name string, opts ...locker.Option) {
				want := driver.NewServerError(text)
				rule := k.wire.On(wire.Match{Arg: name, Times: -1}, wire.Answer("-"+text+"\r\n"))
				k.refusedBy("Lock", k.later(k.ctx, c.Mutex(name, opts...)), want)
				rule.Remove()
				time.Sleep(k.time.short) // nothing is left to clean up
				k.free(name, "after "+want.Code)
			})
		}
	}),
}

// waitError checks how a wait for a lock that is held ended.
func (k *lockKit) waitError(err error, causes ...error) {
	if _, ok := errors.AsType[*locker.WaitError](err); !ok {
		k.Errorf("Lock gave %v; want a *WaitError", err)
		return
	}
	for _, want := range causes {
		k.is("Lock", err, want)
	}
	k.is("Lock", err, locker.ErrLocked)
	k.isNot("Lock", err, locker.ErrUnavailable)
	if locked, ok := errors.AsType[*locker.LockedError](err); !ok || locked.Holder.Label != "the holder" {
		k.Errorf("Lock gave %v; want it to tell who holds the lock", err)
	}
}

// refusedBy checks that a Lock in the background fails at once with the server's
// own reply.
func (k *lockKit) refusedBy(what string, g *grant, want *driver.ServerError) {
	err := k.refused(g, k.times.prompt, what+", which the server refuses,")
	reply, ok := errors.AsType[*driver.ServerError](err)
	if !ok || reply.Code != want.Code || want.Message != "" && reply.Message != want.Message {
		k.Errorf("%s gave %v; want the server's reply %s", what, err, want.Code)
	}
	k.isNot(what, err, locker.ErrLocked)
	k.isNot(what, err, locker.ErrUnavailable)
}
