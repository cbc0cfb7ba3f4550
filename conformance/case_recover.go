package conformance

import (
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// recoverCases: a Conn outlives the loss of its connections, and no reply goes
// to another's command.
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
	{name: "Do/Correlation/AbandonedCall", run: func(k *kit) {
		// The reply to a call that was given up arrives late, when other calls
		// wait for theirs.
		conn := k.warm()
		for i := range 10 {
			late := k.prefix + fmt.Sprint("late", i)
			rule := k.wire.On(wire.Match{Name: "ECHO", Arg: late}, wire.HoldReply)
			ctx, cancel := k.within(k.time.short)
			_, err := k.do(ctx, conn, plain("ECHO", late))
			cancel()
			if err == nil {
				k.Errorf("a call got a reply that the wire held back")
			}
			if i%2 == 0 {
				rule.Release()
			}
			for j := range 5 {
				own := k.prefix + fmt.Sprint("own", i, j)
				k.reply(conn, plain("ECHO", own), own)
				rule.Release()
			}
		}
	}},
	{name: "Do/Correlation/Concurrent", run: func(k *kit) {
		k.concurrently(k.open(), false)
	}},
	{name: "Do/Correlation/ConcurrentAbandoned", run: func(k *kit) {
		k.wire.On(wire.Match{Name: "ECHO", Arg: "slow", Times: -1}, wire.Delay(k.time.short/2))
		k.concurrently(k.open(), true)
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
			for i := range 5 { // and go on to
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

// concurrently runs many calls at once and checks that each gets its own reply.
func (k *kit) concurrently(conn driver.Conn, abandon bool) {
	k.parallel(20, func(g int) {
		for i := range 10 {
			if abandon && (g+i)%4 == 0 {
				ctx, cancel := k.within(k.time.short / 10)
				_, _ = k.do(ctx, conn, plain("ECHO", k.prefix+fmt.Sprint("slow", g, "-", i)))
				cancel()
				continue
			}
			own := k.prefix + fmt.Sprint("own", g, "-", i)
			k.reply(conn, plain("ECHO", own), own)
		}
	})
}
