package conformance

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// batchCases: DoBatch gives each command what Do would have given it. All keys
// of a case share a slot.
var batchCases = []testCase{
	{name: "Batch/Order", needs: needs{batcher: true}, run: func(k *kit) {
		var cmds []driver.Command
		for i := range 100 {
			cmds = append(cmds, cmd("RPUSH", k.key("list"), fmt.Sprint(i)))
		}
		for i, r := range k.doBatch(k.ctx, k.open(), cmds) {
			k.result(i, r, int64(i+1))
		}
		list, _ := k.direct("LRANGE", k.key("list"), "0", "-1").([]any)
		for i, e := range list {
			if e != fmt.Sprint(i) {
				k.Fatalf("the server executed the commands in the order %s", show(list))
			}
		}
		if len(list) != 100 {
			k.Errorf("the server executed %d commands; want 100", len(list))
		}
	}},
	{name: "Batch/Order/Many", needs: needs{batcher: true}, run: func(k *kit) {
		// As many as the core sends at once, where there are connections for parts of them.
		conn := k.manyConnections()
		const n = 256
		for round := range 5 {
			var cmds []driver.Command
			for i := range n {
				cmds = append(cmds, cmd("RPUSH", k.key(fmt.Sprint("list", round)), fmt.Sprint(i)))
			}
			for i, r := range k.doBatch(k.ctx, conn, cmds) {
				k.result(i, r, int64(i+1))
			}
		}
	}},
	{name: "Batch/Results", needs: needs{batcher: true}, run: func(k *kit) {
		// Values, nil and errors of their own, in one batch.
		k.direct("SET", k.key("s"), "text")
		results := k.doBatch(k.ctx, k.open(), []driver.Command{
			cmd("GET", k.key("s")),
			cmd("GET", k.key("absent")),
			cmd("INCR", k.key("s")),
			script("return {1, 'a', {redis.error_reply('MYCODE inside')}}", nil),
			cmd("LPUSH", k.key("s"), "x"),
			script("return redis.error_reply('MYCODE alone')", nil),
			cmd("SET", k.key("s"), allBytes),
			cmd("GET", k.key("s")),
			script("return {'1', false, '', {}}", nil),
			plain("ECHO", "1"),
			plain("ECHO", ""),
		})
		k.result(0, results[0], "text")
		k.result(1, results[1], nil)
		k.isReply("INCR in a batch", results[2].Err, "ERR", "ERR value is not an integer or out of range")
		k.result(3, results[3], []any{int64(1), "a", []any{driver.NewServerError("MYCODE inside")}})
		k.isReply("LPUSH in a batch", results[4].Err, "WRONGTYPE", "WRONGTYPE Operation against a key holding the wrong kind of value")
		k.isReply("EVAL in a batch", results[5].Err, "MYCODE", "MYCODE alone")
		k.result(6, results[6], "OK")
		k.result(7, results[7], allBytes)
		k.result(8, results[8], []any{"1", nil, "", []any{}})
		k.result(9, results[9], "1")
		k.result(10, results[10], "")
	}},
	{name: "Batch/Empty", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.open()
		k.doBatch(k.ctx, conn, nil)
		k.doBatch(k.ctx, conn, []driver.Command{})
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
	}},
	{name: "Batch/One", needs: needs{batcher: true}, run: func(k *kit) {
		r := k.doBatch(k.ctx, k.open(), []driver.Command{plain("ECHO", k.prefix)})
		k.result(0, r[0], k.prefix)
	}},
	{name: "Batch/Thousand", needs: needs{batcher: true}, run: func(k *kit) {
		var cmds []driver.Command
		for i := range 1000 {
			cmds = append(cmds, plain("ECHO", k.prefix+fmt.Sprint(i)))
		}
		conn := k.open()
		for range 2 {
			for i, r := range k.doBatch(k.ctx, conn, cmds) {
				k.result(i, r, k.prefix+fmt.Sprint(i))
			}
		}
	}},
	{name: "Batch/Unchanged", needs: needs{batcher: true}, run: func(k *kit) {
		cmds := []driver.Command{cmd("set", k.key("s"), "x"), cmd("get", k.key("s")), cmd("del", k.key("s"))}
		k.doBatch(k.ctx, k.open(), cmds)
		if got := fmt.Sprint(cmds[0].Args[0], cmds[1].Args[0], cmds[2].Args[0]); got != "setgetdel" {
			k.Errorf("DoBatch changed its commands to %q", got)
		}
	}},
	{name: "Batch/NotKept", needs: needs{batcher: true}, run: func(k *kit) { k.keepsNothing("DoBatch", k.batchOfTwo) }},
	{name: "Batch/LostReply", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.warm()
		const n, lost = 10, 4
		rule := k.wire.On(wire.Match{Name: "INCR", Arg: k.key("n4")}, wire.CutReply)
		defer rule.Remove()
		results := k.doBatch(k.ctx, conn, k.increments(n))
		for i, r := range results {
			switch {
			case i < lost && r.Err == nil:
				k.result(i, r, int64(1))
			case i < lost: // it was executed
				k.outcome("a command before the lost reply", r.Err, driver.OutcomeUnknown)
			case i > lost:
				k.behind(i, r)
			}
		}
		k.outcome("the command whose reply is lost", results[lost].Err, driver.OutcomeUnknown)
		if got := k.direct("GET", k.key("n4")); got != "1" {
			k.Errorf("the command whose reply is lost was executed %s times; want once", show(got))
		}
		k.recovers(conn)
	}},
	{name: "Batch/LostReply/Large", needs: needs{batcher: true}, run: func(k *kit) {
		// The connection breaks while the batch is written, or just after. The first command of the
		// batch has been executed by then: that the write failed proves nothing.
		conn := k.warm()
		k.wire.On(wire.Match{Name: "INCR"}, wire.CutReply)
		cmds := k.increments(1)
		for i := range 16 {
			cmds = append(cmds, cmd("SET", k.key(fmt.Sprint("s", i)), strings.Repeat("x", 64<<10)))
		}
		results := k.doBatch(k.ctx, conn, cmds)
		k.outcome("the command whose reply is lost", results[0].Err, driver.OutcomeUnknown)
		if got := k.direct("GET", k.key("n0")); got != "1" {
			k.Errorf("the command whose reply is lost was executed %s times; want once", show(got))
		}
		k.recovers(conn)
	}},
	{name: "Batch/LostRequest", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.warm()
		k.wire.On(wire.Match{Name: "INCR", Arg: k.key("n0")}, wire.CutRequest)
		for i, r := range k.doBatch(k.ctx, conn, k.increments(5)) {
			if i == 0 {
				k.outcome("the command whose request is lost", r.Err, driver.OutcomeUnknown)
				continue
			}
			k.behind(i, r)
		}
	}},
	{name: "Batch/LostRequest/Large", needs: needs{batcher: true}, run: func(k *kit) {
		// The connection breaks in the middle of a batch: the rest cannot be written, and nobody
		// knows what became of that which was written.
		conn := k.warm()
		k.wire.On(wire.Match{Name: "SET", Arg: k.key("s1")}, wire.CutRequest)
		cmds := k.increments(1)
		for i := range 10 {
			cmds = append(cmds, cmd("SET", k.key(fmt.Sprint("s", i)), strings.Repeat("x", 64<<10)))
		}
		results := k.doBatch(k.ctx, conn, cmds)
		if r := results[0]; r.Err == nil {
			k.result(0, r, int64(1))
		} else {
			k.outcome("a command that was written before the connection broke", r.Err, driver.OutcomeUnknown)
		}
		k.outcome("the command whose request is lost", results[2].Err, driver.OutcomeUnknown)
		k.recovers(conn)
	}},
	{name: "Batch/Transient", needs: needs{batcher: true}, run: func(k *kit) {
		// What the server refuses at present it has answered, also within a batch: nothing of the
		// batch is written again.
		conn := k.warm()
		for _, text := range transient {
			code, _, _ := strings.Cut(text, " ")
			for refused := range 2 {
				cmds := []driver.Command{cmd("INCR", k.key(fmt.Sprint(code, refused, 0))), cmd("INCR", k.key(fmt.Sprint(code, refused, 1)))}
				rule := k.wire.On(wire.Match{Name: "INCR", Arg: cmds[refused].Args[1]}, wire.Answer("-"+text+"\r\n"))
				results := k.doBatch(k.ctx, conn, cmds)
				rule.Remove()
				k.isReply("INCR in a batch", results[refused].Err, code, text)
				k.result(1-refused, results[1-refused], int64(1))
			}
		}
	}},
	{name: "Batch/Recover/ReadOnly", needs: needs{batcher: true}, run: func(k *kit) {
		// Whichever command of the batch is refused.
		k.leavesFormerMaster("a command of a batch, not the first,", readOnly, k.lastOfTwo)
	}},
	{name: "Batch/Recover/ReadOnly/Script", needs: needs{batcher: true}, run: func(k *kit) {
		k.leavesFormerMaster("a script in a batch, not the first,", readOnlyInScript, k.lastOfTwo)
	}},
	{name: "Batch/Correlation/NestedTypedError", needs: needs{batcher: true}, run: func(k *kit) {
		// A client that takes the rest of the array for the replies to the next commands of the batch
		// has all replies before the last ones have come.
		k.nestedErrors(func(conn driver.Conn, c driver.Command, own string) driver.Result {
			late := own + "late"
			k.wire.On(wire.Match{Name: "ECHO", Arg: late}, wire.Delay(k.time.pause))
			results := k.doBatch(k.ctx, conn, []driver.Command{c, plain("ECHO", late), plain("ECHO", own)})
			k.ownResult(results[1], late)
			k.ownResult(results[2], own)
			return results[0]
		})
	}},
	{name: "Batch/Close", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.warm()
		rule := k.wire.On(wire.Match{Name: "INCR", Arg: k.key("n0")}, wire.HoldReply)
		var results []driver.Result
		c := k.background(func() (driver.Value, error) { results = k.doBatch(k.ctx, conn, k.increments(5)); return nil, nil })
		k.await(rule.Happened(), k.time.bound, "the batch has not reached the server")
		k.prompty("Close while a batch is in flight", func() { _ = k.shut(conn) })
		k.wait(c, k.time.slack, "the batch in flight at Close")
		for i, r := range results {
			k.is("a batch in flight at Close", r.Err, driver.ErrClosed)
			if i == 0 {
				k.outcome("a batch in flight at Close", r.Err, driver.OutcomeUnknown)
			}
		}
	}},
	{name: "Batch/Refused", needs: needs{batcher: true}, run: func(k *kit) {
		k.refusedHandshake("DoBatch", func(ctx context.Context, conn driver.Conn, c driver.Command) []driver.Result {
			return k.doBatch(ctx, conn, []driver.Command{c, c})
		})
	}},
	{name: "Batch/NotSent", needs: needs{batcher: true}, run: func(k *kit) {
		k.notSent("DoBatch", k.refusing, k.batchOfOne)
	}},
	{name: "Batch/NotSent/HungDial", needs: needs{batcher: true}, run: func(k *kit) {
		k.notSent("DoBatch", k.hanging, k.batchOfTwo)
	}},
	{name: "Batch/NoName", needs: needs{batcher: true}, run: func(k *kit) {
		k.refusesNoName("DoBatch", k.batchOfOne)
	}},
	{name: "Batch/Ctx/EndedBefore", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.warm()
		ctx, cancel := k.cancellable()
		cancel()
		for range 10 { // a driver may let it depend on chance
			for _, r := range k.doBatch(ctx, conn, k.increments(3)) {
				k.is("DoBatch with an ended ctx", r.Err, context.Canceled)
				k.outcome("DoBatch with an ended ctx", r.Err, driver.OutcomeNotSent)
			}
		}
		k.must(conn, cmd("GET", k.key("n")))
		time.Sleep(k.time.pause)
		if n := k.wire.Count(wire.Match{Name: "INCR"}); n != 0 {
			k.Errorf("%d commands of a batch with an ended ctx were sent", n)
		}
	}},
	{name: "Batch/Ctx/InFlight", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.warm()
		for i, newCtx := range []flightMaker{cancelInFlight, deadlineInFlight} {
			hold := k.key(fmt.Sprint("hold", i))
			rule := k.wire.On(wire.Match{Name: "INCR", Arg: hold}, wire.HoldReply)
			ctx, cancel := newCtx(k, rule)
			k.promptCall(ctx, "DoBatch in flight", func() error {
				r := k.doBatch(ctx, conn, []driver.Command{cmd("INCR", hold), cmd("INCR", k.key("n"))})
				k.outcome("a command whose batch was given up", r[0].Err, driver.OutcomeUnknown)
				k.outcomeIn("a command whose batch was given up", r[1].Err, driver.OutcomeUnknown, driver.OutcomeNotSent)
				return r[0].Err
			})
			cancel()
			rule.Release()
			k.reply(conn, plain("ECHO", hold), hold)
		}
	}},
	{name: "Batch/Ctx/Late", needs: needs{batcher: true}, run: func(k *kit) {
		// The replies to a batch that was given up come when its results belong to the caller.
		conn := k.warm()
		for i := range 20 {
			first := k.key(fmt.Sprint("first", i))
			rule := k.wire.On(wire.Match{Name: "INCR", Arg: first}, wire.HoldReply)
			ctx, cancel := k.cancellable()
			var results []driver.Result
			c := k.background(func() (driver.Value, error) {
				results = k.doBatch(ctx, conn, []driver.Command{cmd("INCR", first), cmd("INCR", k.key("n"))})
				return nil, nil
			})
			select {
			case <-rule.Happened():
			case <-c.done: // the batch went to a connection that the end of the one before has broken
			case <-time.After(k.time.bound):
				k.Fatalf("the batch has not reached the server after %v", k.time.bound)
			}
			if i%2 == 0 {
				go rule.Release() // at the same moment
			}
			cancel()
			k.wait(c, k.time.slack, "a batch whose ctx has ended")
			returned := slices.Clone(results)
			rule.Release()
			if i < 2 {
				time.Sleep(k.time.pause)
			}
			if !reflect.DeepEqual(results, returned) {
				k.Errorf("DoBatch whose ctx ended had returned %v; when its replies came the same slice became %v", returned, results)
			}
		}
	}},
	{name: "Batch/Ctx/HungDial/Deadline", needs: needs{batcher: true}, run: func(k *kit) {
		k.hungDial(deadlineAfter, k.batchOfTwo)
	}},
	{name: "Batch/Ctx/HungDial/Cancel", needs: needs{batcher: true}, run: func(k *kit) {
		k.hungDial(cancelAfter, k.batchOfTwo)
	}},
	{name: "Batch/Ctx/PoolExhausted", needs: needs{batcher: true}, run: func(k *kit) {
		k.poolExhausted(k.batchOfTwo)
	}},
	{name: "Batch/Bounded", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.warm()
		k.wire.Partition()
		k.bounded("DoBatch without a deadline in a partition", func() error {
			return k.doBatch(k.ctx, conn, k.increments(3))[0].Err
		})
	}},
	{name: "Batch/Bounded/FarDeadline", needs: needs{batcher: true}, run: func(k *kit) { k.boundedByTimeouts(k.batchOfTwo) }},
	{name: "Batch/Concurrent", needs: needs{batcher: true}, run: func(k *kit) {
		conn := k.open()
		k.parallel(20, func(g int) {
			var cmds []driver.Command
			for i := range 20 {
				cmds = append(cmds, plain("ECHO", k.prefix+fmt.Sprint(g, "-", i)))
			}
			for i, r := range k.doBatch(k.ctx, conn, cmds) {
				k.result(i, r, k.prefix+fmt.Sprint(g, "-", i))
			}
			own := k.prefix + fmt.Sprint("own", g)
			k.reply(conn, plain("ECHO", own), own)
		})
	}},
}

// increments are n commands for n counters, n0, n1, ….
func (k *kit) increments(n int) []driver.Command {
	var cmds []driver.Command
	for i := range n {
		cmds = append(cmds, cmd("INCR", k.key(fmt.Sprint("n", i))))
	}
	return cmds
}

// batchOfOne is a caller that uses DoBatch.
func (k *kit) batchOfOne(ctx context.Context, conn driver.Conn, c driver.Command) []driver.Result {
	return k.doBatch(ctx, conn, []driver.Command{c})
}

// batchOfTwo is a caller that uses a DoBatch which no driver turns into a Do.
func (k *kit) batchOfTwo(ctx context.Context, conn driver.Conn, c driver.Command) []driver.Result {
	return k.doBatch(ctx, conn, []driver.Command{c, plain("ECHO", k.prefix)})
}

// lastOfTwo is a caller that uses a DoBatch in which the command is not the first.
func (k *kit) lastOfTwo(ctx context.Context, conn driver.Conn, c driver.Command) []driver.Result {
	return k.doBatch(ctx, conn, []driver.Command{plain("ECHO", k.prefix), c})[1:]
}

func (k *kit) result(i int, r driver.Result, want driver.Value) {
	if r.Err != nil || !reflect.DeepEqual(r.Value, want) {
		k.Errorf("result %d is (%s, %v); want %s", i, show(r.Value), r.Err, show(want))
	}
}

// behind checks the result of an INCR behind the one whose connection broke: a driver that sends
// one command after another may send it on the next connection, once.
func (k *kit) behind(i int, r driver.Result) {
	if r.Err != nil {
		k.outcomeIn("a command behind the one that is lost", r.Err, driver.OutcomeUnknown, driver.OutcomeNotSent)
		return
	}
	k.result(i, r, int64(1))
	if n := k.wire.Count(wire.Match{Name: "INCR", Arg: k.key(fmt.Sprint("n", i))}); n != 1 {
		k.never("command %d of a batch whose connection broke succeeded, and was written %d times; want once", i, n)
	}
}

func (k *kit) outcomeIn(what string, err error, a, b driver.Outcome) {
	if err == nil {
		k.Errorf("%s succeeded; want an error with the outcome %q or %q", what, a, b)
	} else if got := driver.OutcomeOf(err); got != a && got != b {
		k.Errorf("%s: the outcome of %q is %q; want %q or %q", what, err, got, a, b)
	}
}
