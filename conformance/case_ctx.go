package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// ctxCases: Do is prompt when its ctx ends and bounded when it has no deadline.
var ctxCases = []testCase{
	{name: "Do/Ctx/EndedBefore", run: func(k *kit) {
		conn := k.warm()
		cancelled, cancel := k.cancellable()
		cancel()
		expired, cancel := context.WithDeadlineCause(k.ctx, time.Now().Add(-time.Second), errCause)
		defer cancel()
		for _, ctx := range []context.Context{cancelled, expired} {
			for range 10 { // with some drivers it may depend on chance
				_, err := k.do(ctx, conn, cmd("INCR", k.key("n")))
				k.is("Do with an ended ctx", err, ctx.Err())
				k.outcome("Do with an ended ctx", err, driver.OutcomeNotSent)
			}
		}
		// Whatever was sent in spite of the ended ctx is sent before this GET.
		k.must(conn, cmd("GET", k.key("n")))
		time.Sleep(k.time.pause)
		if n := k.wire.Count(wire.Match{Name: "INCR"}); n != 0 {
			k.Errorf("%d commands with an ended ctx were sent", n)
		}
	}},
	{name: "Do/Ctx/DeadlineInFlight", run: func(k *kit) { k.inFlight(deadlineInFlight) }},
	{name: "Do/Ctx/CancelInFlight", run: func(k *kit) { k.inFlight(cancelInFlight) }},
	{name: "Do/Ctx/HungDial/Deadline", run: func(k *kit) { k.hungDial(deadlineAfter, k.doOne) }},
	{name: "Do/Ctx/HungDial/Cancel", run: func(k *kit) { k.hungDial(cancelAfter, k.doOne) }},
	{name: "Do/Ctx/HungHandshake", run: func(k *kit) {
		// The server accepts connections and says nothing, ever.
		k.wire.On(wire.Match{Times: -1}, wire.BlackHole)
		k.prompt(cancelAfter, nil, k.doOne)
	}},
	{name: "Do/Ctx/BlackHole", run: func(k *kit) {
		conn := k.warm()
		k.wire.Partition()
		k.prompt(cancelAfter, conn, k.doOne)
		k.prompt(deadlineAfter, conn, k.doOne)
	}},
	{name: "Do/Ctx/DialOfAnother", run: func(k *kit) {
		// A client may let a call wait for the connection that another call dials, or for the client
		// itself, where the first call opens it. If that other call gives up, the waiting call's own
		// ctx has not ended.
		conns := []driver.Conn{k.open()}
		rounds := 3 // the first may be for a connection that is gone
		if k.realTime() {
			rounds = 1 // each takes the client's timeout
		} else {
			conns = append(conns, k.warm())
		}
		k.wire.HangDials()
		k.wire.KillAll()
		for _, conn := range conns {
			for range rounds {
				ctx, cancel := k.cancellable()
				first := k.startDo(ctx, conn, cmd("GET", k.key("n")))
				time.Sleep(k.time.pause)
				second := k.startDo(k.ctx, conn, cmd("GET", k.key("n")))
				time.Sleep(k.time.pause)
				cancel()
				k.wait(first, k.time.slack, "a call that waits for a connection and is cancelled")
				k.wait(second, k.time.bound, "a call that waits for a connection, and is not cancelled,")
				if errors.Is(second.err, context.Canceled) {
					k.Errorf("a call that waits for a connection gave %q, which matches %q, when another one was cancelled", second.err, context.Canceled)
				}
			}
		}
	}},
	{name: "Do/Ctx/PoolExhausted", run: func(k *kit) { k.poolExhausted(k.doOne) }},
	{name: "Do/Bounded/Silence", run: func(k *kit) {
		conn := k.warm()
		k.wire.On(wire.Match{Name: "INCR"}, wire.Silence)
		k.bounded("Do without a deadline, the server silent", func() error {
			_, err := k.do(k.ctx, conn, cmd("INCR", k.key("n")))
			return err
		})
	}},
	{name: "Do/Bounded/BlackHole", run: func(k *kit) {
		conn := k.warm()
		k.wire.Partition()
		for range 2 {
			k.bounded("Do without a deadline in a partition", func() error {
				_, err := k.do(k.ctx, conn, cmd("GET", k.key("n")))
				return err
			})
		}
	}},
	{name: "Do/Bounded/PoolExhausted", run: func(k *kit) {
		// A call that waits for a connection does not wait for all the calls that came before.
		if k.realTime() {
			k.Skipf("it takes all of the client's timeouts, one after the other")
		}
		conn := k.warm(func(c *driver.Config) { c.PoolSize = 1 })
		k.wire.Partition()
		k.parallel(6, func(i int) {
			k.bounded("Do without a deadline in a partition, beside others and with one connection for all,", func() error {
				_, err := k.do(k.ctx, conn, cmd("INCR", k.key(fmt.Sprint("n", i))))
				return err
			})
		})
	}},
	{name: "Do/Bounded/FarDeadline", run: func(k *kit) { k.boundedByTimeouts(k.doOne) }},
	{name: "Do/Bounded/HungDial", run: func(k *kit) {
		k.wire.HangDials()
		k.bounded("Connect and Do without a deadline, dialing hangs", func() error { return k.connectAndDo(k.ctx, k.connector(), k.doOne) })
	}},
	{name: "Do/Bounded/HungHandshake", run: func(k *kit) {
		// The server accepts connections and says nothing, ever.
		conn := k.warm()
		k.wire.On(wire.Match{Times: -1}, wire.BlackHole)
		k.wire.KillAll()
		for range 3 { // the first may be for a connection that is gone
			k.bounded("Do without a deadline, the handshake unanswered,", func() error {
				_, err := k.do(k.ctx, conn, cmd("GET", k.key("n")))
				return err
			})
		}
		k.bounded("Connect and Do without a deadline, the handshake unanswered,", func() error { return k.connectAndDo(k.ctx, k.connector(), k.doOne) })
	}},
	{name: "Do/Bounded/Refused", run: func(k *kit) {
		conn := k.warm()
		k.wire.Refuse(true)
		k.wire.KillAll()
		for range 3 {
			k.bounded("Do without a deadline, dials refused", func() error {
				_, err := k.do(k.ctx, conn, cmd("GET", k.key("n")))
				return err
			})
		}
	}},
}

// errCause is why the ctxs of cases end. An error must match what ctx.Err says, not the caller's
// reason for the end: if the two were the same, a driver that returns context.Cause would not be noticed.
var errCause = errors.New("the cause of the end of a ctx")

// within returns a ctx of the case that ends after d.
func (k *kit) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(k.ctx, d, errCause)
}

// cancellable returns a ctx of the case that ends when it is cancelled.
func (k *kit) cancellable() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(k.ctx)
	return ctx, func() { cancel(errCause) }
}

// A ctxMaker makes a ctx that ends after kit.time.short.
type ctxMaker func(*kit) (context.Context, context.CancelFunc)

// deadlineAfter is a ctx with a deadline.
func deadlineAfter(k *kit) (context.Context, context.CancelFunc) { return k.within(k.time.short) }

// cancelAfter is a ctx without a deadline that is cancelled.
func cancelAfter(k *kit) (context.Context, context.CancelFunc) {
	ctx, cancel := k.cancellable()
	timer := time.AfterFunc(k.time.short, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// A flightMaker makes a ctx that ends when a call under it is in flight, and a rule has seen
// its command.
type flightMaker func(*kit, *wire.Rule) (context.Context, context.CancelFunc)

// deadlineInFlight is a ctx with a deadline, which cannot wait for the rule.
func deadlineInFlight(k *kit, _ *wire.Rule) (context.Context, context.CancelFunc) {
	return k.within(k.time.flight)
}

// cancelInFlight is a ctx without a deadline that is cancelled.
func cancelInFlight(k *kit, rule *wire.Rule) (context.Context, context.CancelFunc) {
	ctx, cancel := k.cancellable()
	go func() {
		select {
		case <-rule.Happened():
		case <-ctx.Done():
			return
		case <-time.After(k.time.bound):
		}
		select {
		case <-ctx.Done():
		case <-time.After(k.time.short):
			cancel()
		}
	}()
	return ctx, cancel
}

// inFlight ends the ctx of a call whose command was executed and whose reply
// is on its way, and checks whether the connection is still in order.
func (k *kit) inFlight(newCtx flightMaker) {
	conn := k.warm()
	for i := range 3 {
		key := k.key(fmt.Sprint("n", i))
		rule := k.wire.On(wire.Match{Name: "INCR", Arg: key}, wire.HoldReply)
		ctx, cancel := newCtx(k, rule)
		k.promptCall(ctx, "Do in flight", func() error {
			_, err := k.do(ctx, conn, cmd("INCR", key))
			k.outcome("Do whose ctx ended in flight", err, driver.OutcomeUnknown)
			return err
		})
		cancel()
		if got := k.direct("GET", key); got != "1" {
			k.Errorf("the server's counter is %s; want \"1\": the command was in flight", show(got))
		}
		rule.Release()
		k.reply(conn, plain("ECHO", key), key)
	}
}

// A caller makes a call of a Conn, by Do or within a batch. The first result is the command's.
type caller func(context.Context, driver.Conn, driver.Command) []driver.Result

func (k *kit) hungDial(newCtx ctxMaker, call caller) {
	k.wire.HangDials()
	k.prompt(newCtx, nil, call)
}

// poolExhausted makes calls while the only connection is busy with one.
func (k *kit) poolExhausted(call caller) {
	conn := k.warm(func(c *driver.Config) { c.PoolSize = 1 })
	rule := k.wire.On(wire.Match{Name: "GET", Arg: k.key("held")}, wire.HoldReply)
	held := k.background(func() (driver.Value, error) { return nil, call(k.ctx, conn, cmd("GET", k.key("held")))[0].Err })
	k.await(rule.Happened(), k.time.bound, "the first command has not reached the server")
	for i := range 3 {
		ctx, cancel := cancelAfter(k)
		if i == 1 {
			ctx, cancel = k.within(k.time.short)
		}
		k.promptCall(ctx, "a call while the only connection (PoolSize 1) is busy", func() error {
			return call(ctx, conn, cmd("GET", k.key(fmt.Sprint(i))))[0].Err
		})
		cancel()
	}
	rule.Release()
	k.wait(held, k.time.bound, "the held call")
	k.reply(conn, plain("ECHO", k.prefix), k.prefix)
}

// prompt makes a call, of a Conn that it makes first where conn is nil, while nothing answers.
func (k *kit) prompt(newCtx ctxMaker, conn driver.Conn, call caller) {
	ctx, cancel := newCtx(k)
	defer cancel()
	k.promptCall(ctx, "a call while nothing answers", func() error {
		if conn == nil {
			return k.connectAndDo(ctx, k.connector(), call)
		}
		return call(ctx, conn, cmd("GET", k.key("n")))[0].Err
	})
}

// connectAndDo is Connect and a call, whichever of the two makes the connection.
func (k *kit) connectAndDo(ctx context.Context, c driver.Connector, call caller) error {
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	k.closeLater(conn)
	return call(ctx, conn, cmd("GET", k.key("n")))[0].Err
}

// promptCall checks that f returns when ctx ends, neither before nor later, with
// the error of ctx.
func (k *kit) promptCall(ctx context.Context, what string, f func() error) {
	c := k.background(func() (driver.Value, error) { return nil, f() })
	select {
	case <-c.done:
	case <-ctx.Done():
		k.await(c.done, k.time.slack, what+": its ctx has ended and it has not returned")
	}
	k.checkText(c.err)
	end := ctx.Err()
	if at, ok := ctx.Deadline(); end == nil && ok && !time.Now().Before(at) {
		end = context.DeadlineExceeded // a client may notice its deadline before the ctx does
	}
	if end == nil {
		k.Errorf("%s returned %v after %v, before its ctx ended", what, c.err, c.took)
		return
	}
	k.is(what, c.err, end)
}

// boundedByTimeouts makes calls whose deadline is far away. That deadline does not replace the
// client's timeouts, which come first.
func (k *kit) boundedByTimeouts(call caller) {
	ctx, cancel := k.within(time.Hour)
	defer cancel()
	conn := k.warm(func(c *driver.Config) { c.PoolSize = 1 })
	bounded := func(what string) {
		k.bounded("a call with a deadline in an hour, "+what, func() error {
			return call(ctx, conn, cmd("INCR", k.key("n")))[0].Err
		})
	}
	k.wire.On(wire.Match{Name: "INCR"}, wire.Silence)
	bounded("the server silent,")
	k.recovers(conn)
	if k.realTime() {
		return // what follows takes all of the client's timeouts, one after the other
	}
	k.wire.HangDials()
	k.wire.KillAll()
	for range 2 { // the first may be for a connection that is gone
		bounded("dialing hangs,")
	}
	k.wire.ResumeDials()
	k.recovers(conn)
	k.wire.Partition()
	k.parallel(6, func(int) { bounded("in a partition, beside others and with one connection for all,") })
}

// bounded checks that f, whose ctx does not end, fails by itself within the client's
// timeouts.
func (k *kit) bounded(what string, f func() error) {
	c := k.background(func() (driver.Value, error) { return nil, f() })
	k.wait(c, k.time.bound, what)
	if c.err == nil {
		k.Errorf("%s succeeded; want an error", what)
	}
	k.notReplied(what, c.err)
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(c.err, end) {
			k.Errorf("%s gave %q, which matches %q, and the caller's ctx has not ended: the client's own timeout has to be told as something else",
				what, c.err, end)
		}
	}
}
