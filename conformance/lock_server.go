package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockServerCases: what only a real server does.
var lockServerCases = []testCase{
	lockCase("Server/NoPerm/Lock", needs{realServer: true}, func(k *lockKit) {
		// A user that must not write: the refusal is told at once.
		as := k.user("on", "~*", "&*", "+@all", "-set")
		c := k.clientOn(k.connector(as))
		k.refusedBy("Lock", k.later(k.ctx, c.Mutex(k.key("lock"))), &driver.ServerError{Code: "NOPERM"})
		ctx, cancel := k.within(k.time.bound)
		defer cancel()
		_, err := c.Mutex(k.key("lock"), locker.Fenced()).Lock(ctx)
		if err == nil {
			k.Errorf("a fenced Lock succeeded for a user that must not write")
		}
		k.isNot("a fenced Lock of a user that must not write", err, context.DeadlineExceeded)
		k.free(k.key("lock"), "after it was refused")
	}),
	lockCase("Server/NoPerm/Subscribe", needs{realServer: true, subscriber: true}, func(k *lockKit) {
		// A user that must not subscribe: its waiters poll.
		as := k.user("on", "~*", "+@all", "-@pubsub")
		c := k.clientOn(k.connector(as))
		name := k.key("lock")
		held := k.take(k.client().Mutex(name, locker.TTL(k.times.long)))
		g := k.later(k.ctx, c.Mutex(name))
		k.waiters(name, 1)
		n := k.sent(name)
		time.Sleep(k.times.poll)
		if n := k.sent(name) - n; n < 3 {
			k.Errorf("a waiter that must not subscribe asked %d times in %v", n, k.times.poll)
		}
		k.unlock(held)
		k.unlock(k.granted(g, 256*time.Millisecond+k.times.grant, "a waiter that must not subscribe"))
	}),
	lockCase("Server/ClientPause", needs{realServer: true}, func(k *lockKit) {
		// The server stops answering for a while. No lease is lost by that, and no
		// call outlives its ctx.
		c := k.clientOn(k.connector(func(c *driver.Config) { c.Timeout = k.time.bound }))
		k.warm(c)
		l := k.take(c.Mutex(k.key("held"), locker.TTL(2*k.times.ttl)))
		pause := k.times.ttl
		begun := time.Now()
		if v := k.direct("CLIENT", "PAUSE", fmt.Sprint(pause.Milliseconds())); v != "OK" {
			k.Skipf("CLIENT PAUSE is not allowed: %s", show(v))
		}
		ctx, cancel := k.within(k.time.short)
		defer cancel()
		err := k.refused(k.later(ctx, c.Mutex(k.key("lock"))), k.time.short+pause/2, "Lock on a paused server, its ctx ended,")
		k.is("Lock on a paused server", err, context.DeadlineExceeded)
		k.is("Lock on a paused server", err, locker.ErrUnavailable)
		time.Sleep(time.Until(begun.Add(2*k.times.ttl + pause/2)))
		k.valid(l, "after the server was paused")
		k.unlock(l)
		k.soonFree(k.key("lock"), "after the server was paused and the caller gave up")
	}),
}
