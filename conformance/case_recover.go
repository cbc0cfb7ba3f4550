package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// recoverCases: a Conn outlives the loss of its connections, and no reply goes
// to another command than its own.
var recoverCases = []testCase{
	{name: "Do/Recover/Killed", run: func(k *kit) {
		conn := k.manyConnections()
		k.wire.KillAll()
		k.recovers(conn)
	}},
	{name: "Do/Recover/Refused", run: func(k *kit) {
		conn := k.manyConnections()
		k.wire.Refuse(true)
		k.wire.KillAll()
		for range 5 {
			ctx, cancel := k.within(k.time.short)
			_, _ = k.do(ctx, conn, cmd("GET", k.key("n")))
			cancel()
		}
		k.wire.Refuse(false)
		k.recovers(conn)
	}},
	{name: "Do/Recover/First", run: func(k *kit) {
		// There is no server yet when a Conn is made and used. A client that is opened by the first
		// call may keep for good the error that the call failed with.
		k.wire.Refuse(true)
		conn := k.connectMaybe(k.connector())
		if conn == nil {
			return // Connector/ConnectAgain
		}
		for range 2 {
			ctx, cancel := k.within(k.time.short)
			_, _ = k.do(ctx, conn, cmd("GET", k.key("n")))
			cancel()
		}
		k.wire.Refuse(false)
		k.recovers(conn)
	}},
	{name: "Do/Recover/Partition", run: func(k *kit) {
		conn := k.manyConnections()
		k.wire.Partition()
		for range 5 {
			ctx, cancel := k.within(k.time.short)
			_, _ = k.do(ctx, conn, cmd("GET", k.key("n")))
			cancel()
		}
		k.wire.Heal()
		k.recovers(conn)
	}},
	{name: "Do/Recover/HalfReply", run: func(k *kit) {
		conn := k.warm()
		k.direct("SET", k.key("s"), "a reply that is cut in the middle")
		k.wire.On(wire.Match{Name: "GET"}, wire.HalfReply)
		_, _ = k.do(k.ctx, conn, cmd("GET", k.key("s")))
		k.recovers(conn)
	}},
	{name: "Do/Recover/ReadOnly", run: func(k *kit) { k.leavesFormerMaster("Do", readOnly, k.doOne) }},
	{name: "Do/Recover/ReadOnly/Script", run: func(k *kit) { k.leavesFormerMaster("Do of a script", readOnlyInScript, k.doOne) }},
	{name: "Do/Correlation/AbandonedCall", run: func(k *kit) {
		// The reply to a call that was given up arrives late, when other calls wait for
		// their replies. None of them gets it; that they succeed is another clause.
		conn := k.warm()
		k.abandoned(conn, func(own string) { k.ownReply(conn, own) })
		k.recovers(conn)
	}},
	{name: "Do/Correlation/NestedTypedError", run: func(k *kit) {
		k.nestedErrors(func(conn driver.Conn, c driver.Command, _ string) driver.Result { return k.doOne(k.ctx, conn, c)[0] })
	}},
	{name: "Do/Concurrent/HeldReply", run: func(k *kit) {
		// While a reply is held back, and its call was given up, others succeed.
		conn := k.warm()
		k.abandoned(conn, func(own string) {
			ctx, cancel := k.within(k.time.bound)
			defer cancel()
			if _, err := k.do(ctx, conn, plain("ECHO", own)); err != nil {
				k.Errorf("while the reply to a call that was given up is held back on one connection, another call gave %v; want its reply, on another connection", err)
			}
		})
	}},
	{name: "Do/Concurrent/HungDial", run: func(k *kit) {
		// While one call waits for a connection that is being made, another call has the use of
		// the connection that exists.
		conn := k.warm(func(c *driver.Config) { c.DialTimeout, c.Timeout = 2*k.time.bound, 2*k.time.bound })
		rule := k.wire.On(wire.Match{Name: "GET", Arg: k.key("held")}, wire.HoldReply)
		held := k.startDo(k.ctx, conn, cmd("GET", k.key("held")))
		k.await(rule.Happened(), k.time.bound, "the first command has not reached the server")
		k.wire.HangDials()
		ctx, cancel := k.cancellable()
		dials := k.startDo(ctx, conn, plain("ECHO", k.prefix))
		time.Sleep(k.time.pause)
		rule.Release()
		k.wait(held, k.time.bound, "the call whose reply was held back")
		within, done := k.within(k.time.bound)
		if _, err := k.do(within, conn, plain("ECHO", k.prefix+"own")); err != nil {
			k.Errorf("while another call dials, which hangs, a call gave %v; want its reply, on the connection that is free", err)
		}
		done()
		cancel()
		k.wait(dials, k.time.bound, "the call that dials")
		k.wire.ResumeDials()
		k.recovers(conn)
	}},
	{name: "Do/Correlation/Concurrent", run: func(k *kit) {
		k.concurrently(k.open(), false, k.echo)
	}},
	{name: "Do/Correlation/ConcurrentAbandoned", run: func(k *kit) {
		k.delaySlow()
		k.concurrently(k.open(), true, k.ownReply)
	}},
	{name: "Do/Concurrent/Abandoned", run: func(k *kit) {
		k.delaySlow()
		k.concurrently(k.open(), true, func(conn driver.Conn, own string) {
			v, err := k.do(k.ctx, conn, plain("ECHO", own))
			if err != nil {
				k.Errorf("beside calls that are given up a call gave %v; want its reply: a connection that one of them has cost is replaced without a pause", err)
				return
			}
			k.result(0, driver.Result{Value: v}, own)
		})
	}},
	{name: "Do/Recover/Abandoned", run: func(k *kit) {
		// A connection that is not used any more is closed, and not only at Close: otherwise each call
		// that is given up would leave one behind.
		conn := k.warm(func(c *driver.Config) { c.PoolSize = 2 })
		const calls, few = 10, 6
		rule := k.wire.On(wire.Match{Name: "ECHO", Arg: "late", Times: -1}, wire.HoldReply)
		for i := range calls {
			ctx, cancel := k.within(k.time.short)
			_, _ = k.do(ctx, conn, plain("ECHO", k.prefix+fmt.Sprint("late", i)))
			cancel()
		}
		if !k.eventually(k.time.settle, func() bool { return k.wire.Open() <= few }) {
			k.Errorf("%d connections are open after %d calls were given up, with a PoolSize of 2; want those closed that are of no more use", k.wire.Open(), calls)
		}
		rule.Release()
		k.recovers(conn)
	}},
	{name: "Do/Concurrent/Counter", run: func(k *kit) {
		conn := k.open()
		k.parallel(20, func(int) {
			for range 10 {
				k.must(conn, cmd("INCR", k.key("n")))
			}
		})
		if got := k.direct("GET", k.key("n")); got != "200" {
			k.Errorf("after 200 concurrent INCR the counter is %s", show(got))
		}
	}},
}

// manyConnections returns a Conn that has been used by several goroutines at
// once, so that a pool has more than one connection.
func (k *kit) manyConnections() driver.Conn {
	conn := k.open()
	k.parallel(4, func(i int) { k.must(conn, cmd("GET", k.key(fmt.Sprint("n", i)))) })
	return conn
}

// recovers checks that calls succeed again after a few tries.
func (k *kit) recovers(conn driver.Conn) {
	const tries = 20
	var err error
	for range tries {
		ctx, cancel := k.within(k.time.bound)
		_, err = k.do(ctx, conn, plain("ECHO", k.prefix))
		cancel()
		if err == nil {
			for i := range 5 { // and they go on to succeed
				own := k.prefix + fmt.Sprint(i)
				k.reply(conn, plain("ECHO", own), own)
			}
			return
		}
		k.notReplied("ECHO while the connection comes back", err)
		time.Sleep(k.time.pause)
	}
	k.Errorf("the network is back and %d calls in a row failed, at last with %v", tries, err)
}

// leavesFormerMaster checks that the connection on which a server has said that it only reads
// is not used again, except by one more call: the server's address may be a name that leads to the
// new master by now.
func (k *kit) leavesFormerMaster(what, refusal string, call caller) {
	conn := k.warm()
	refused := cmd("INCR", k.key("n"))
	k.wire.On(wire.Match{Name: "INCR", Arg: refused.Args[1]}, wire.Answer("-"+refusal+"\r\n"))
	k.isReply(what, call(k.ctx, conn, refused)[0].Err, "READONLY", refusal)
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	_ = call(ctx, conn, plain("ECHO", k.prefix+"may fail"))
	own := k.prefix + "own"
	k.result(0, call(k.ctx, conn, plain("ECHO", own))[0], own)
	for _, former := range k.wire.Requests(wire.Match{Name: "INCR", Arg: refused.Args[1]}) {
		for _, later := range k.wire.Requests(wire.Match{Name: "ECHO", Arg: own}) {
			if later.Conn == former.Conn {
				k.Errorf("%s was answered READONLY, and the call after the next one went over the same connection; want another one, since the address may be a name that leads to the new master", what)
			}
		}
	}
}

// abandoned gives up calls whose replies are held back, and makes others meanwhile, the
// first of each round sometimes while the reply is still held.
func (k *kit) abandoned(conn driver.Conn, other func(own string)) {
	for i := range 10 {
		late := k.prefix + fmt.Sprint("late", i)
		rule := k.wire.On(wire.Match{Name: "ECHO", Arg: late}, wire.HoldReply)
		ctx, cancel := k.within(k.time.short)
		_, err := k.do(ctx, conn, plain("ECHO", late))
		cancel()
		if err == nil {
			k.never("a call got a reply that the wire held back")
		}
		if i%2 == 0 {
			rule.Release()
		}
		if i%4 == 0 {
			time.Sleep(k.time.pause) // the late reply is there before the next call
		}
		for j := range 5 {
			other(k.prefix + fmt.Sprint("own", i, j))
			rule.Release()
		}
	}
}

// ownReply checks that a call gets its own reply or an error that is none.
func (k *kit) ownReply(conn driver.Conn, own string) {
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	v, err := k.do(ctx, conn, plain("ECHO", own))
	k.ownResult(driver.Result{Value: v, Err: err}, own)
}

// ownResult is ownReply of an ECHO that has been made.
func (k *kit) ownResult(r driver.Result, own string) {
	if r.Err == nil && r.Value != own {
		k.never("ECHO %s gave %s: the reply to another command", shorten(own), show(r.Value))
	}
	k.notReplied("ECHO", r.Err)
}

// nestedErrors makes calls whose reply is an array with an error in it that a client may take for
// the whole reply, and looks which call gets the rest of the array.
func (k *kit) nestedErrors(call func(conn driver.Conn, c driver.Command, own string) driver.Result) {
	conn := k.warm()
	for _, text := range slices.Concat(transient, []string{"NOAUTH Authentication required.", "NOPERM no permissions"}) {
		code, _, _ := strings.Cut(text, " ")
		r := call(conn, script("return {1, {err=ARGV[1]}, 'b', 'c'}", nil, text), k.prefix+code)
		k.notReplied("a script that has replied with an array", r.Err) // that the array is returned is the clause Do/Reply/NestedError
		if want := []any{int64(1), driver.NewServerError(text), "b", "c"}; r.Err == nil {
			k.result(0, r, want)
		}
		for i := range 3 {
			k.ownReply(conn, k.prefix+code+fmt.Sprint(i))
		}
	}
	k.recovers(conn)
}

// echo checks that a call gets its own reply.
func (k *kit) echo(conn driver.Conn, own string) { k.reply(conn, plain("ECHO", own), own) }

// slowCalls is how many calls of concurrently are given up.
const slowCalls = 50

// slow is the delay of a reply to a call that is given up. One connection for all
// commands has to bear all these delays within its timeout.
func (k *kit) slow() time.Duration { return k.time.reply / (2 * slowCalls) }

func (k *kit) delaySlow() {
	k.wire.On(wire.Match{Name: "ECHO", Arg: "slow", Times: -1}, wire.Delay(k.slow()))
}

// concurrently makes many calls at once.
func (k *kit) concurrently(conn driver.Conn, abandon bool, call func(conn driver.Conn, own string)) {
	k.parallel(20, func(g int) {
		for i := range 10 {
			if abandon && (g+i)%4 == 0 {
				ctx, cancel := k.within(k.slow() / 2)
				_, _ = k.do(ctx, conn, plain("ECHO", k.prefix+fmt.Sprint("slow", g, "-", i)))
				cancel()
				continue
			}
			call(conn, k.prefix+fmt.Sprint("own", g, "-", i))
		}
	})
}
