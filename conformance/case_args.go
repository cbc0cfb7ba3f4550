package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// allBytes holds every byte once, and what a line-based parser trips over.
var allBytes = func() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b) + "\r\n$-1\r\n\x00\r\n*0\r\n:1\r\n-ERR no\r\n+OK\r\n\xff\xfe\r"
}()

// argsCases: any number of any bytes goes in and out of Do.
var argsCases = []testCase{
	{name: "Do/Binary/Value", run: func(k *kit) {
		conn := k.open()
		k.must(conn, cmd("SET", k.key("s"), allBytes))
		if got := k.direct("GET", k.key("s")); got != allBytes {
			k.Errorf("the server has %s; want %s", show(got), show(allBytes))
		}
		k.reply(conn, cmd("GET", k.key("s")), allBytes)
	}},
	{name: "Do/Binary/Key", run: func(k *kit) {
		key := k.key(allBytes)
		k.must(k.open(), cmd("SET", key, "x"))
		if got := k.direct("GET", key); got != "x" {
			k.Errorf("under the binary key the server has %s; want what was set", show(got))
		}
	}},
	{name: "Do/Binary/Nested", run: func(k *kit) {
		k.reply(k.open(), script("return {ARGV[1], {ARGV[2], ''}}", nil, allBytes, "\x00"),
			[]any{allBytes, []any{"\x00", ""}})
	}},
	{name: "Do/Binary/NotUTF8", run: func(k *kit) {
		k.reply(k.open(), plain("ECHO", k.prefix+"\xff\xfe\xc3\x28"), k.prefix+"\xff\xfe\xc3\x28")
	}},
	{name: "Do/Args/Empty", run: func(k *kit) {
		conn := k.open()
		k.must(conn, cmd("SET", k.key("s"), ""))
		if got := k.direct("GET", k.key("s")); got != "" {
			k.Errorf("the server has %s; want an empty string", show(got))
		}
		k.reply(conn, script("return {#KEYS, #ARGV, ARGV[1], ARGV[2]}", []string{k.key("s")}, "", ""),
			[]any{int64(1), int64(2), "", ""})
	}},
	{name: "Do/Args/NoName", run: func(k *kit) { k.refusesNoName("Do", k.doOne) }},
	{name: "Do/Args/Many", run: func(k *kit) {
		args := []string{"RPUSH", k.key("list")}
		for i := range 10_000 {
			args = append(args, fmt.Sprint(i))
		}
		conn := k.open()
		k.reply(conn, driver.Command{Args: args, FirstKey: 1, NumKeys: 1}, int64(10_000))
		list, _ := k.must(conn, cmd("LRANGE", k.key("list"), "0", "-1")).([]any)
		if len(list) != 10_000 || list[0] != "0" || list[9_999] != "9999" {
			k.Errorf("LRANGE gave %d elements, %s; want 10000 in order", len(list), show(list))
		}
	}},
	{name: "Do/Args/Large", run: func(k *kit) {
		large := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB
		conn := k.open()
		k.must(conn, cmd("SET", k.key("s"), large))
		if got := k.direct("GET", k.key("s")); got != large {
			k.Errorf("the server has %s; want 1 MiB", show(got))
		}
		k.reply(conn, cmd("GET", k.key("s")), large)
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
	}},
	{name: "Do/Args/Unchanged", run: func(k *kit) {
		// A driver that overwrites in place, even beyond the length, is found.
		backing := []string{"set", k.key("s"), "value", "px", "60000", "beyond"}
		c := driver.Command{Args: backing[:5], FirstKey: 1, NumKeys: 1}
		k.must(k.open(), c)
		if got := strings.Join(backing, " "); got != "set "+k.key("s")+" value px 60000 beyond" {
			k.Errorf("Do changed its arguments to %q", got)
		}
	}},
	{name: "Do/Args/NotKept", run: func(k *kit) { k.keepsNothing("Do", k.doOne) }},
	{name: "Do/Keys/Anywhere", run: func(k *kit) {
		conn := k.open()
		k.direct("SET", k.key("a"), "1")
		k.direct("SET", k.key("b"), "2")
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
		k.reply(conn, driver.Command{Args: []string{"EXISTS", k.key("a"), k.key("b")}, FirstKey: 1, NumKeys: 2}, int64(2))
		k.reply(conn, script("return {KEYS[2], ARGV[1]}", []string{k.key("a"), k.key("b")}, "x"), []any{k.key("b"), "x"})
		k.reply(conn, driver.Command{Args: []string{"BITOP", "NOT", k.key("c"), k.key("a")}, FirstKey: 2, NumKeys: 2}, int64(1))
	}},
}

// keepsNothing gives up calls while they wait behind another one, and uses their slices again.
// What is written later must not come from those slices.
func (k *kit) keepsNothing(what string, call caller) {
	conn := k.warm(func(c *driver.Config) { c.PoolSize = 1 })
	poison := k.key("poison")
	rule := k.wire.On(wire.Match{Name: "GET", Arg: k.key("held")}, wire.HoldReply)
	held := k.startDo(k.ctx, conn, cmd("GET", k.key("held")))
	k.await(rule.Happened(), k.time.bound, "the first command has not reached the server")
	for i := range 3 { // less than the reply timeout altogether
		ctx, cancel := context.WithTimeout(k.ctx, k.time.short)
		c := cmd("SET", k.key(fmt.Sprint("s", i)), "value")
		err := call(ctx, conn, c)[0].Err
		cancel()
		c.Args[1] = poison
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			k.Errorf("a call that waits behind another gave %v; want the deadline", err)
		}
	}
	rule.Release()
	k.wait(held, k.time.bound, "the held call")
	for range 10 {
		k.must(conn, cmd("GET", k.key("after")))
	}
	if n := k.wire.Count(wire.Match{Arg: poison}); n != 0 {
		k.Errorf("%s kept the argument slice: what it held after %[1]s had returned was written %d times", what, n)
	}
}

// refusesNoName checks that a command without a name, which no server could be asked, is not sent.
func (k *kit) refusesNoName(what string, call func(context.Context, driver.Conn, driver.Command) []driver.Result) {
	conn := k.warm()
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	for _, c := range []driver.Command{{}, plain("")} {
		for _, r := range call(ctx, conn, c) {
			k.outcome(fmt.Sprintf("%s of the command %q", what, c.Args), r.Err, driver.OutcomeNotSent)
		}
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
	}
}
