package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// closeCases: closed is closed, for whoever calls, waits or listens.
var closeCases = []testCase{
	{name: "Close/Idempotent", run: func(k *kit) {
		conn := k.warm()
		for i := range 3 {
			if err := k.shut(conn); err != nil {
				k.Errorf("Close number %d gave %v; want nil", i+1, err)
			}
		}
	}},
	{name: "Close/ErrClosed", run: func(k *kit) {
		conn := k.warm()
		_ = k.shut(conn)
		_, err := k.do(k.ctx, conn, cmd("INCR", k.key("n")))
		k.is("Do after Close", err, driver.ErrClosed)
		k.outcome("Do after Close", err, driver.OutcomeNotSent)
		if got := k.direct("GET", k.key("n")); got != nil {
			k.Errorf("a command was executed after Close")
		}
	}},
	{name: "Close/Unused", run: func(k *kit) {
		conn := k.open()
		k.prompty("Close of a Conn that was never used", func() { _ = k.shut(conn) })
	}},
	{name: "Close/Connections", run: func(k *kit) {
		conn := k.manyConnections()
		if k.wire.Open() == 0 {
			k.Errorf("no connection is open after use: the driver dials around Config.Dial")
		}
		_ = k.shut(conn)
		k.noneOpen("that were in use or idle")
	}},
	{name: "Close/Goroutines", run: func(k *kit) {
		// In a bubble every case ends with this check; see suite.guard.
		before := k.goroutines()
		conn := k.manyConnections()
		ctx, cancel := k.within(k.time.short)
		defer cancel()
		k.wire.On(wire.Match{Name: "INCR"}, wire.HoldReply)
		_, _ = k.do(ctx, conn, cmd("INCR", k.key("n")))
		_ = k.shut(conn)
		k.noNewGoroutines(before)
	}},
	{name: "Close/InFlight", run: func(k *kit) {
		conn := k.warm()
		rule := k.wire.On(wire.Match{Name: "INCR"}, wire.HoldReply)
		c := k.startDo(k.ctx, conn, cmd("INCR", k.key("n")))
		k.await(rule.Happened(), k.time.bound, "the command has not reached the server")
		k.prompty("Close while a call is in flight", func() { _ = k.shut(conn) })
		k.wait(c, k.time.slack, "the call in flight at Close")
		k.outcome("the call in flight at Close", c.err, driver.OutcomeUnknown)
		k.is("the call in flight at Close", c.err, driver.ErrClosed)
	}},
	{name: "Close/NotSent", run: func(k *kit) {
		// A command that waits for a connection when the Conn is closed is not sent on one that
		// comes later: that would be a lock that nobody knows of.
		conn := k.warm(func(c *driver.Config) { c.DialTimeout, c.Timeout = k.time.bound, k.time.bound })
		k.wire.HangDials()
		k.wire.KillAll()
		callers := []caller{k.doOne}
		if k.h.Capabilities.Batcher {
			callers = append(callers, k.batchOfTwo)
		}
		var calls []*call
		for _, one := range callers {
			// The first calls may use connections that are gone. After them one waits.
			for waits := false; !waits && len(calls) < 40; {
				c := cmd("INCR", k.key(fmt.Sprint("n", len(calls))))
				last := k.background(func() (driver.Value, error) { return nil, one(k.ctx, conn, c)[0].Err })
				calls = append(calls, last)
				select {
				case <-last.done:
				case <-time.After(k.time.short):
					waits = true
				}
			}
		}
		k.prompty("Close while calls wait for a connection", func() { _ = k.shut(conn) })
		for _, c := range calls {
			k.wait(c, k.time.slack, "a call that waited for a connection at Close")
		}
		k.is("a call that waited for a connection at Close", calls[len(calls)-1].err, driver.ErrClosed)
		k.wire.ResumeDials() // what is marked NotSent is not written now: every case checks that at its end
		time.Sleep(k.time.reply)
	}},
	{name: "Close/WhileDialing", run: func(k *kit) {
		conn := k.warm()
		k.wire.HangDials()
		k.wire.KillAll()
		// The first calls may fail on dead connections; then one dials.
		c := k.startDo(k.ctx, conn, cmd("GET", k.key("n")))
		for range 20 {
			select {
			case <-c.done:
				c = k.startDo(k.ctx, conn, cmd("GET", k.key("n")))
			case <-time.After(k.time.short):
			}
		}
		k.prompty("Close while a call dials", func() { _ = k.shut(conn) })
		k.wait(c, k.time.slack, "the call that was dialing at Close")
		if c.err == nil {
			k.Errorf("a call without a connection succeeded")
		}
	}},
	{name: "Close/RefusedHandshakes", run: func(k *kit) {
		if k.credentials().password == "" {
			k.Skipf("the server asks for no password")
		}
		conn := k.warm()
		k.refuseHandshakes()
		k.wire.KillAll()
		for range 5 {
			ctx, cancel := k.within(k.time.bound)
			_, _ = k.do(ctx, conn, cmd("GET", k.key("n")))
			cancel()
		}
		_ = k.shut(conn)
		k.noneOpen("whose handshake was refused")
	}},
	{name: "Close/HungHandshakes", run: func(k *kit) {
		// The server accepts connections and says nothing, ever.
		conn := k.warm()
		k.wire.On(wire.Match{Times: -1}, wire.BlackHole)
		k.wire.KillAll()
		for range 3 {
			ctx, cancel := k.within(k.time.short)
			_, _ = k.do(ctx, conn, cmd("GET", k.key("n")))
			cancel()
		}
		c := k.startDo(k.ctx, conn, cmd("GET", k.key("n")))
		time.Sleep(k.time.pause)
		k.prompty("Close during a handshake", func() { _ = k.shut(conn) })
		k.wait(c, k.time.slack, "the call whose handshake was unanswered at Close")
		k.noneOpen("whose handshake was never answered")
	}},
	{name: "Close/PoolExhausted", run: func(k *kit) {
		// Calls that wait for the only connection are cancelled while the Conn is closed.
		c := k.connector(func(c *driver.Config) { c.PoolSize = 1 })
		for round := range 30 {
			conn := k.connect(c)
			key := k.key(fmt.Sprint("held", round, "."))
			rule := k.wire.On(wire.Match{Name: "GET", Arg: key}, wire.HoldReply)
			calls := []*call{k.startDo(k.ctx, conn, cmd("GET", key))}
			k.await(rule.Happened(), k.time.bound, "the first command has not reached the server")
			ctx, cancel := k.cancellable()
			for range 8 {
				calls = append(calls, k.startDo(ctx, conn, cmd("GET", k.key("n"))))
			}
			time.Sleep(time.Millisecond)
			if round%2 == 0 {
				go cancel()
			} else {
				cancel()
			}
			k.prompty("Close while calls wait for a connection", func() { _ = k.shut(conn) })
			for _, c := range calls {
				k.wait(c, k.time.slack, "a call that waited for the only connection (PoolSize 1) at Close")
				if !errors.Is(c.err, context.Canceled) {
					k.is("a call that waited for the only connection (PoolSize 1) at Close", c.err, driver.ErrClosed)
				}
			}
			rule.Release()
		}
	}},
	{name: "Close/BlackHole", run: func(k *kit) {
		conn := k.manyConnections()
		k.wire.Partition()
		c := k.startDo(k.ctx, conn, cmd("INCR", k.key("n")))
		k.eventually(k.time.short, func() bool { return k.wire.Count(wire.Match{Name: "INCR"}) > 0 })
		k.prompty("Close in a partition", func() { _ = k.shut(conn) })
		k.wait(c, k.time.slack, "the call in a partition at Close")
	}},
	{name: "Close/Concurrent", run: func(k *kit) {
		conn := k.warm()
		var calls []*call
		for range 10 {
			calls = append(calls,
				k.startDo(k.ctx, conn, plain("ECHO", k.prefix)),
				k.background(func() (driver.Value, error) { return nil, k.shut(conn) }))
		}
		for _, c := range calls {
			k.wait(c, k.time.bound, "Do or Close beside Close")
		}
	}},
	{name: "Close/Batch", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.warm()
		_ = k.shut(conn)
		for _, r := range k.doBatch(k.ctx, conn, []driver.Command{cmd("INCR", k.key("a")), cmd("INCR", k.key("b"))}) {
			k.is("DoBatch after Close", r.Err, driver.ErrClosed)
			k.outcome("DoBatch after Close", r.Err, driver.OutcomeNotSent)
		}
	}},
	{name: "Close/Subscribe", needs: needs{subscriber: true}, run: func(k *kit) {
		conn := k.warm()
		_ = k.shut(conn)
		sub, err := k.subscription(k.ctx, conn)
		if err == nil {
			err = sub.Add(k.ctx, k.prefix+"ch")
			_ = k.shut(sub)
		}
		k.is("Subscribe after Close", err, driver.ErrClosed)
	}},
	{name: "Close/Subscribing", needs: needs{subscriber: true}, run: func(k *kit) {
		// A Subscription that has no connection yet gets none later.
		conn := k.warm()
		k.wire.HangDials()
		var receive *call
		add := k.background(func() (driver.Value, error) {
			sub, err := k.subscription(k.ctx, conn)
			if err != nil {
				return nil, err // a driver may connect first
			}
			receive = k.background(func() (driver.Value, error) { _, err := sub.Receive(k.ctx); return nil, err })
			return nil, sub.Add(k.ctx, k.channel("a"))
		})
		time.Sleep(k.time.pause)
		k.prompty("Close while a Subscription connects", func() { _ = k.shut(conn) })
		k.wait(add, k.time.slack, "Subscribe and Add when their Conn is closed")
		k.is("Subscribe and Add when their Conn is closed", add.err, driver.ErrClosed)
		if receive != nil {
			k.wait(receive, k.time.slack, "Receive when its Conn is closed")
			k.is("Receive when its Conn is closed", receive.err, driver.ErrClosed)
		}
		k.wire.ResumeDials()
		time.Sleep(k.time.reply)
		k.noneOpen("of a Subscription that was connecting")
	}},
	{name: "Close/Describe", needs: needs{describer: true}, run: func(k *kit) {
		conn := k.warm()
		_ = k.shut(conn)
		_, err := k.describer(conn).Describe(k.ctx)
		k.is("Describe after Close", err, driver.ErrClosed)
	}},
	{name: "Close/OtherConn", run: func(k *kit) {
		// Two Conns of one Connector are closed each on its own.
		c := k.connector()
		a, b := k.connect(c), k.connect(c)
		k.must(a, cmd("SET", k.key("s"), "x"))
		_ = k.shut(a)
		k.reply(b, cmd("GET", k.key("s")), "x")
		k.reply(k.connect(c), cmd("GET", k.key("s")), "x")
		_, err := k.do(context.Background(), a, cmd("GET", k.key("s")))
		k.is("Do after Close", err, driver.ErrClosed)
	}},
}

// noneOpen checks that Close leaves no connections.
func (k *kit) noneOpen(which string) {
	if !k.eventually(k.time.settle, func() bool { return k.wire.Open() == 0 }) {
		k.Errorf("%d connections %s are open after Close", k.wire.Open(), which)
	}
}

// prompty checks that f, which has no ctx, returns at once.
func (k *kit) prompty(what string, f func()) {
	c := k.background(func() (driver.Value, error) { f(); return nil, nil })
	k.wait(c, k.time.slack, what)
}
