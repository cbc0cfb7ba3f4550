package conformance

import (
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// stallCases: a write waits for its peer like a read, and ends like one.
var stallCases = []testCase{
	{name: "Do/StalledWrite/Ctx", run: func(k *kit) {
		for _, newCtx := range []ctxMaker{cancelAfter, deadlineAfter} {
			s := k.stall()
			conn := k.warm(s.edit)
			s.begin()
			ctx, cancel := newCtx(k)
			k.promptCall(ctx, "Do that writes and nobody reads", func() error {
				_, err := k.do(ctx, conn, cmd("GET", k.key("n")))
				k.outcome("Do whose ctx ended while it wrote", err, driver.OutcomeUnknown)
				return err
			})
			cancel()
			k.prompt(newCtx, conn, k.doOne) // on a connection whose handshake nobody reads
			s.end()
			k.recovers(conn)
		}
	}},
	{name: "Do/StalledWrite/Bounded", run: func(k *kit) {
		s := k.stall()
		conn := k.warm(s.edit)
		s.begin()
		for i := range 3 {
			k.bounded("Do without a deadline, nobody reads", func() error {
				_, err := k.do(k.ctx, conn, cmd("GET", k.key("n")))
				if i == 0 {
					k.outcome("Do that timed out while it wrote", err, driver.OutcomeUnknown)
				}
				return err
			})
		}
		s.end()
		k.recovers(conn)
	}},
	{name: "Do/StaleDeadline", run: func(k *kit) {
		// The deadline of a call is not the deadline of the next call on its connection.
		conn := k.open()
		for range 3 {
			ctx, cancel := k.within(k.time.short)
			_, err := k.do(ctx, conn, plain("ECHO", k.prefix))
			<-ctx.Done()
			cancel()
			if err != nil {
				continue // the machine is busy: the call's connection was given up
			}
			time.Sleep(k.time.pause)
			if _, err := k.do(k.ctx, conn, plain("ECHO", k.prefix)); err != nil {
				k.Errorf("a call without a deadline, behind one whose deadline has passed since, gave %v", err)
			}
		}
	}},
	{name: "Batch/StalledWrite", needs: needs{batcher: true}, run: func(k *kit) {
		s := k.stall()
		large := cmd("SET", k.key("s"), strings.Repeat("x", 256<<10))
		for _, cmds := range [][]driver.Command{k.increments(3), {cmd("GET", k.key("n")), large}} {
			conn := k.warm(s.edit)
			s.begin()
			k.bounded("DoBatch without a deadline, nobody reads", func() error {
				r := k.doBatch(k.ctx, conn, cmds)
				k.outcome("a command of a batch that timed out while it was written", r[0].Err, driver.OutcomeUnknown)
				return r[0].Err
			})
			s.end()
			k.recovers(conn)
			s.begin()
			ctx, cancel := cancelAfter(k)
			k.promptCall(ctx, "DoBatch that writes and nobody reads", func() error {
				return k.doBatch(ctx, conn, cmds)[0].Err
			})
			cancel()
			s.end()
			k.recovers(conn)
		}
	}},
	{name: "Close/StalledWrite", run: func(k *kit) {
		s := k.stall()
		conn := k.warm(s.edit)
		s.begin()
		c := k.startDo(k.ctx, conn, cmd("INCR", k.key("n")))
		time.Sleep(k.time.pause)
		k.prompty("Close while a call writes", func() { _ = k.shut(conn) })
		k.wait(c, k.time.slack, "the call that was writing at Close")
		k.outcome("the call that was writing at Close", c.err, driver.OutcomeUnknown)
	}},
}
