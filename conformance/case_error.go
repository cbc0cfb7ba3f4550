package conformance

import (
	"errors"
	"strings"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// errorCases: an error reply is a *driver.ServerError with the server's own code
// and text, whatever the client likes to strip, translate or retry.
var errorCases = []testCase{
	{name: "Do/Error/ERR", run: func(k *kit) {
		k.direct("SET", k.key("s"), "not a number")
		k.errorReply(k.open(), cmd("INCR", k.key("s")), "ERR")
	}},
	{name: "Do/Error/NOSCRIPT", run: func(k *kit) {
		k.errorReply(k.open(), plain("EVALSHA", strings.Repeat("0", 40), "0"), "NOSCRIPT")
	}},
	{name: "Do/Error/WRONGTYPE", run: func(k *kit) {
		k.direct("LPUSH", k.key("list"), "x")
		k.errorReply(k.open(), cmd("GET", k.key("list")), "WRONGTYPE")
	}},
	{name: "Do/Error/Custom", run: func(k *kit) {
		k.errorReply(k.open(), script("return redis.error_reply('MYCODE with: some detail')", nil), "MYCODE")
	}},
	{name: "Do/Error/Code", run: func(k *kit) {
		// The core decides by the code. Before Redis 7.0 the error that a command of a script has met
		// is in the middle of the text, and not every word in capitals is a code.
		conn := k.warm()
		for _, reply := range []struct{ code, text string }{
			{"ERR", "ERR DB index is out of range"},
			{"OOM", "ERR Error running script (call to f_0123): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'."},
			{"READONLY", "@user_script: 7: -READONLY You can't write against a read only replica."},
			{"ERR", "@user_script: 7: Wrong number of args calling Redis command From Lua script"},
		} {
			rule := k.wire.On(wire.Match{Name: "INCR"}, wire.Answer("-"+reply.text+"\r\n"))
			_, err := k.do(k.ctx, conn, cmd("INCR", k.key("n")))
			rule.Remove()
			k.isReply("INCR", err, reply.code, reply.text)
		}
		const unknown, quoted = "ERR unknown command 'INCR'", ", with args beginning with: 'the id of a lease' "
		k.wire.On(wire.Match{Name: "INCR"}, wire.Answer("-"+unknown+quoted+"\r\n"))
		_, err := k.do(k.ctx, conn, cmd("INCR", k.key("n")))
		k.isReply("INCR", err, "ERR", unknown)
	}},
	{name: "Do/Error/ThenWorks", run: func(k *kit) {
		conn := k.open()
		for range 20 {
			k.errorReply(conn, script("return redis.error_reply('MYCODE again')", nil), "MYCODE")
			k.reply(conn, plain("ECHO", k.prefix), k.prefix)
		}
	}},
	{name: "Do/Error/Transient", run: func(k *kit) {
		// Each of these is an answer, and the core decides what follows it.
		conn := k.warm()
		for _, text := range transient {
			code, _, _ := strings.Cut(text, " ")
			key := k.key(code)
			rule := k.wire.On(wire.Match{Name: "INCR", Arg: key}, wire.Answer("-"+text+"\r\n"))
			_, err := k.do(k.ctx, conn, cmd("INCR", key))
			k.isReply("INCR", err, code, text)
			rule.Remove()
			if n := k.wire.Count(wire.Match{Name: "INCR", Arg: key}); n != 1 {
				k.Errorf("after the reply %s the command was written %d times; want once", code, n)
			}
		}
	}},
}

// readOnly is how a server that was the master until a failover refuses a write.
const readOnly = "READONLY You can't write against a read only replica."

// readOnlyInScript is how such a server, before Redis 7.0, refuses the write of a script.
const readOnlyInScript = "ERR Error running script (call to f_0123): @user_script:1: @user_script: 1: -" + readOnly

// transient are the refusals of a server that may think better of it soon, which some clients
// therefore repeat.
var transient = []string{
	"LOADING Redis is loading the dataset in memory",
	readOnly,
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"CLUSTERDOWN The cluster is down",
	"NOREPLICAS Not enough good replicas to write.",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"MISCONF Redis is configured to save RDB snapshots",
}

// errorReply checks that a command's error is exactly what the server says.
func (k *kit) errorReply(conn driver.Conn, c driver.Command, code string) {
	want, ok := k.direct(c.Args...).(*driver.ServerError)
	if !ok {
		k.Fatalf("the server gives no error for %v", c)
	}
	v, err := k.do(k.ctx, conn, c)
	if v != nil && err != nil {
		k.Errorf("Do(%v) gave the value %s beside an error; want nil", c, show(v))
	}
	what := c.Name()
	if v != nil && err == nil {
		what += " gave the value " + show(v) + ", and"
	}
	k.isReply(what, err, code, want.Message)
}

func (k *kit) isReply(what string, err error, code, message string) {
	se, ok := errors.AsType[*driver.ServerError](err)
	if err == nil {
		k.Errorf("%s gave no error; want a *driver.ServerError %q", what, message)
		return
	}
	if !ok {
		k.Errorf("%s gave %v (%T); want a *driver.ServerError %q", what, err, err, message)
		return
	}
	if se.Code != code || se.Message != message {
		k.Errorf("%s gave code %q, message %q; want %q, %q", what, se.Code, se.Message, code, message)
	}
	k.outcome(what, err, driver.OutcomeReplied)
}
