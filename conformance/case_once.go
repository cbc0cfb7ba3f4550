package conformance

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// onceCases: a command is written once, and an error never claims to know more
// than it does.
var onceCases = []testCase{
	{name: "Do/LostRequest/Unknown", run: func(k *kit) { k.lost(wire.CutRequest, 0) }},
	{name: "Do/LostReply/Unknown", run: func(k *kit) { k.lost(wire.CutReply, 1) }},
	{name: "Do/LostReply/Half", run: func(k *kit) { k.lost(wire.HalfReply, 1) }},
	{name: "Do/LostReply/Silence", run: func(k *kit) { k.lost(wire.Silence, 1) }},
	{name: "Do/LostRequest/BlackHole", run: func(k *kit) { k.lost(wire.BlackHole, 0) }},
	{name: "Do/LostReply/ReadOnly", run: func(k *kit) {
		// Some clients repeat commands that only read. The clause has no exception for them.
		for _, c := range []driver.Command{cmd("GET", k.key("s")), cmd("PTTL", k.key("s"))} {
			k.lostCommand(c, wire.CutReply)
		}
	}},
	{name: "Do/LostReply/Script", run: func(k *kit) {
		sha, _ := k.direct("SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])").(string)
		k.lostCommand(driver.Command{Args: []string{"EVALSHA", sha, "1", k.key("n")}, FirstKey: 3, NumKeys: 1}, wire.CutReply)
		if got := k.direct("GET", k.key("n")); got != "1" {
			k.Errorf("the script was executed %s times; want once", show(got))
		}
	}},
	{name: "Do/LostReply/Write", run: func(k *kit) {
		// The write fails, and has arrived all the same. A client that reads on may have the reply.
		if k.realTime() {
			k.Skipf("a socket cannot be made to do that")
		}
		var fails atomic.Bool
		conn := k.warm(dialing(func(c net.Conn) net.Conn { return &failingConn{c, k.key("n"), &fails} }))
		fails.Store(true)
		ctx, cancel := k.within(k.time.bound)
		defer cancel()
		v, err := k.do(ctx, conn, cmd("INCR", k.key("n")))
		if err == nil {
			k.result(0, driver.Result{Value: v}, int64(1))
		} else {
			k.outcome("INCR that has arrived although its write failed", err, driver.OutcomeUnknown)
		}
		k.recovers(conn) // it was written once: every case checks that at its end
	}},
	{name: "Do/AtMostOnce/StaleConnection", run: func(k *kit) {
		// Connections died while nobody used them. The first calls may fail;
		// none may be written twice, which every case checks at its end.
		conn := k.warm()
		k.wire.KillAll()
		failed, tries := 0, 20
		for i := range tries {
			if _, err := k.do(k.ctx, conn, cmd("INCRBY", k.key("n"), "1")); err != nil {
				failed++
				k.notReplied("INCRBY on a dead connection", err)
			}
			if i == tries-1 && failed == tries {
				k.Errorf("no call of %d succeeded after the connections were cut", tries)
			}
		}
	}},
	{name: "Do/AtMostOnce/LateRequest", run: func(k *kit) {
		// A request arrives at the server after its caller gave up. The driver
		// must have said that it does not know the outcome.
		conn := k.warm()
		for i, newCtx := range []flightMaker{deadlineInFlight, cancelInFlight} {
			key := k.key(fmt.Sprint("n", i))
			rule := k.wire.On(wire.Match{Name: "INCR", Arg: key}, wire.HoldRequest)
			ctx, cancel := newCtx(k, rule)
			_, err := k.do(ctx, conn, cmd("INCR", key))
			cancel()
			if rule.Applied() == 0 {
				k.Fatalf("INCR gave %v when its ctx ended, and had not been written by then, although nothing is in its way", err)
			}
			k.outcome("INCR that is still on its way", err, driver.OutcomeUnknown)
			rule.Release()
			if !k.eventually(k.time.settle, func() bool { return k.direct("GET", key) == "1" }) {
				k.Errorf("the late request was not executed: the suite is at fault")
			}
		}
	}},
	{name: "Do/NotSent/Refused", run: func(k *kit) { k.notSent("Do", k.refusing, k.doOne) }},
	{name: "Do/NotSent/HungDial", run: func(k *kit) { k.notSent("Do", k.hanging, k.doOne) }},
	{name: "Do/Refused/NotReplied", run: func(k *kit) {
		// A driver may prove that nothing was sent or leave it unknown.
		k.wire.Refuse(true)
		conn := k.connectMaybe(k.connector())
		if conn == nil {
			return
		}
		ctx, cancel := k.within(k.time.bound)
		defer cancel()
		_, err := k.do(ctx, conn, cmd("INCR", k.key("n")))
		if err == nil {
			k.Errorf("Do succeeded although every dial is refused")
		}
		k.notReplied("Do without a server", err)
	}},
	{name: "Do/Refused/Handshake", run: func(k *kit) {
		k.refusedHandshake("Do", k.doOne)
	}},
}

// doOne is a caller that uses Do.
func (k *kit) doOne(ctx context.Context, conn driver.Conn, c driver.Command) []driver.Result {
	v, err := k.do(ctx, conn, c)
	return []driver.Result{{Value: v, Err: err}}
}

// refusing and hanging shut the network, and return a function that opens it.
func (k *kit) refusing() (reopen func()) {
	k.wire.Refuse(true)
	return func() { k.wire.Refuse(false) }
}

func (k *kit) hanging() (reopen func()) {
	k.wire.HangDials()
	return k.wire.ResumeDials
}

// notSent calls while there are no connections, and opens the network again. What was
// marked NotSent must not be sent then either, as it would be from a queue: that would be
// a lock that nobody knows of.
func (k *kit) notSent(what string, shut func() func(), call caller) {
	conn := k.warm()
	reopen := shut()
	k.wire.KillAll()
	marked := map[string]bool{}
	for i := range 5 { // the first may be for a connection that is gone
		key := k.key(fmt.Sprint("n", i))
		ctx, cancel := k.within(k.time.short)
		r := call(ctx, conn, cmd("INCR", key))[0]
		cancel()
		if r.Err == nil {
			k.Errorf("%s succeeded without a connection", what)
		}
		k.notReplied(what+" without a connection", r.Err)
		marked[key] = driver.OutcomeOf(r.Err) == driver.OutcomeNotSent
	}
	reopen()
	k.recovers(conn)
	time.Sleep(2 * k.time.reply)
	for key, notSent := range marked {
		if n := k.wire.Count(wire.Match{Name: "INCR", Arg: key}); notSent && n > 0 {
			k.never("%s without a connection gave an error marked NotSent, and the command was written when there was one again: "+
				"switch off the client's offline queue, or leave the error unmarked", what)
		}
	}
}

// refusedHandshake calls when the server lets nobody in any more. What the server says then is no
// reply to a command, which has not been sent; a driver may prove that or leave it unknown.
func (k *kit) refusedHandshake(what string, call caller) {
	if k.credentials().password == "" {
		k.Skipf("the server asks for no password")
	}
	conn := k.warm()
	relent := k.refuseHandshakes()
	k.wire.KillAll()
	k.notLetIn(what+" to a server that refuses every connection", conn, call)
	relent() // the password has been put right
	k.recovers(conn)
}

// notLetIn calls where no connection can be made: whatever is answered is answered before there is
// a command.
func (k *kit) notLetIn(what string, conn driver.Conn, call caller) {
	for range 3 { // the first may be for a connection that is gone
		ctx, cancel := k.within(k.time.bound)
		results := call(ctx, conn, cmd("INCR", k.key("n")))
		cancel()
		for _, r := range results {
			if r.Err == nil {
				k.Errorf("%s succeeded", what)
			}
			if driver.OutcomeOf(r.Err) == driver.OutcomeReplied {
				k.Errorf("%s: the outcome of %q is %q although the connection was refused, and nobody saw the command",
					what, r.Err, driver.OutcomeReplied)
			}
		}
	}
}

// refuseHandshakes makes the server let nobody in, and returns what ends that.
func (k *kit) refuseHandshakes() (relent func()) {
	var rules []*wire.Rule
	for _, name := range []string{"HELLO", "AUTH"} {
		rules = append(rules, k.wire.On(wire.Match{Name: name, Times: -1}, wire.Answer("-WRONGPASS invalid username-password pair or user is disabled.\r\n")))
	}
	return func() {
		for _, r := range rules {
			r.Remove()
		}
	}
}

// lost runs an INCR whose request or reply gets lost, on a connection in use.
func (k *kit) lost(action wire.Action, executed int) {
	key := k.key("n")
	k.lostCommand(cmd("INCR", key), action)
	want := driver.Value(nil)
	if executed == 1 {
		want = "1"
	}
	if got := k.direct("GET", key); got != want {
		k.Errorf("the server's counter is %s; want %s", show(got), show(want))
	}
}

func (k *kit) lostCommand(c driver.Command, action wire.Action) {
	conn := k.warm()
	rule := k.wire.On(wire.Match{Name: c.Name(), Arg: c.Keys()[0]}, action)
	defer rule.Remove()
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	_, err := k.do(ctx, conn, c)
	k.outcome(c.Name()+" without a reply", err, driver.OutcomeUnknown)
	if n := k.wire.Count(wire.Match{Name: c.Name(), Arg: c.Keys()[0]}); n != 1 {
		k.never("%v was written %d times; want once", c, n)
	}
}

// notReplied checks that err does not claim that the server has answered.
func (k *kit) notReplied(what string, err error) {
	if driver.OutcomeOf(err) == driver.OutcomeReplied {
		k.Errorf("%s: the outcome of %q is %q although the server said nothing", what, err, driver.OutcomeReplied)
	}
}

// connectMaybe connects while the network is down: a driver may fail or be lazy.
func (k *kit) connectMaybe(c driver.Connector) driver.Conn {
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	conn, err := c.Connect(ctx)
	k.checkText(err)
	if err != nil {
		if conn != nil {
			k.Errorf("Connect gave a Conn beside the error %v", err)
		}
		return nil
	}
	if conn == nil {
		k.Fatalf("Connect gave neither a Conn nor an error")
	}
	k.closeLater(conn)
	return conn
}
