package conformance_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/locker/driver"
)

// The lock level runs the real algorithms, so a broken algorithm has to be made
// on the way: a breaker sits between the core and the reference driver and
// changes commands, replies, messages, or a line of a script.

// do is driver.Conn.Do.
type do func(ctx context.Context, cmd driver.Command) (driver.Value, error)

// A breaker says what goes wrong on one connector. A nil field changes nothing.
type breaker struct {
	// do is called for every command, those of batches included.
	do func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error)
	// conn is called for every Conn with the connector it comes from.
	conn func(driver.Connector, driver.Conn) driver.Conn
	// sub is called for every Subscription.
	sub func(driver.Subscription) driver.Subscription
}

type brokenConnector struct {
	driver.Connector
	breaker
}

func (c brokenConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if c.conn != nil {
		conn = c.conn(c.Connector, conn)
	}
	return brokenConn{conn, conn.(driver.Describer), c.breaker}, nil
}

type brokenConn struct {
	driver.Conn
	driver.Describer
	breaker breaker
}

func (c brokenConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if c.breaker.do == nil {
		return c.Conn.Do(ctx, cmd)
	}
	return c.breaker.do(ctx, cmd, c.Conn.Do)
}

// DoBatch is as fast as the driver's own only where commands are not changed.
func (c brokenConn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	if c.breaker.do == nil {
		return driver.DoBatch(ctx, c.Conn, cmds)
	}
	results := make([]driver.Result, len(cmds))
	for i, cmd := range cmds {
		results[i].Value, results[i].Err = c.Do(ctx, cmd)
	}
	return results
}

func (c brokenConn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	sub, err := c.Conn.(driver.Subscriber).Subscribe(ctx)
	if err == nil && c.breaker.sub != nil {
		sub = c.breaker.sub(sub)
	}
	return sub, err
}

// lockHarness is a harness of the reference driver with a bug, a breaker for
// each connector, or both.
func lockHarness(m lockMutant) conformance.Harness {
	h := harness(m.bug)
	if m.breaks == nil {
		return h
	}
	open := h.Open
	h.Open = func(cfg driver.Config) (driver.Connector, error) {
		c, err := open(cfg)
		if err != nil {
			return nil, err
		}
		return brokenConnector{c, m.breaks()}, nil
	}
	return h
}

// luaComment is a line that the core does not send.
var luaComment = regexp.MustCompile(`(?m)^ *--.*\n`)

// scripts are the core's Lua files by the digest under which the core runs them.
var scripts = sync.OnceValue(func() map[string]luaScript {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "locker", "lua", name+".lua"))
		if err != nil {
			panic(err)
		}
		return string(luaComment.ReplaceAll(b, nil))
	}
	base, queue, enqueue, mutex, holds := read("base"), read("queue"), read("enqueue"), read("mutex"), read("holds")
	// Where the script for all cases is broken, the short roads ahead of it are left out.
	short := map[string]string{
		"acquire": read("enter") + read("acquire_held") + read("acquire_free"), "release": read("release_free") + read("heir") + read("release_held"),
		"hold": read("enter") + read("kept_out") + read("hold_held") + read("hold_free"), "hold_release": read("heir") + read("kept_out") + read("hold_release_held"),
	}
	found := map[string]luaScript{}
	for before, names := range map[string][]string{
		base + read("young"):            {"inspect"},
		base + mutex:                    {"attach", "unattach"},
		base + mutex + read("renewals"): {"renew"},
		base + mutex:                    {"renew", "attach", "unattach", "turn"},
		base + queue + mutex + holds + read("young"):      {"break"},
		base + queue + mutex + read("handover"):           {"release", "giveup"},
		base + queue + enqueue + mutex + read("handover"): {"acquire"},
		base + queue + enqueue + holds:                    {"hold"},
		base + queue + holds:                              {"hold_attach", "hold_unattach"},
		base + queue + holds + read("renewals"):           {"hold_renew"},
		base + queue + holds + read("letgo"):              {"hold_release", "hold_giveup"},
	} {
		for _, name := range names {
			source := before + read(name)
			sum := sha1.Sum([]byte(short[name] + source))
			found[hex.EncodeToString(sum[:])] = luaScript{name, source, short[name]}
		}
	}
	return found
})

type luaScript struct{ name, source, short string }

// scriptOf returns the script that cmd runs, the zero luaScript if none.
func scriptOf(cmd driver.Command) luaScript {
	switch cmd.Name() {
	case "EVALSHA":
		return scripts()[cmd.Args[1]]
	case "EVAL":
		sum := sha1.Sum([]byte(cmd.Args[1]))
		return scripts()[hex.EncodeToString(sum[:])]
	}
	return luaScript{}
}

// runs tells whether cmd runs the script with that name.
func runs(cmd driver.Command, name string) bool { return scriptOf(cmd).name == name }

// A luaEdit changes a line of a script, or of all where script is empty; or of the short
// roads ahead of it.
type luaEdit struct {
	script, before, after string
	short                 bool
}

func (e luaEdit) applies(s luaScript) bool {
	edited := s.source
	if e.short {
		edited = s.short
	}
	return (e.script == s.name || e.script == "") && strings.Contains(edited, e.before)
}

func (e luaEdit) apply(s luaScript) string {
	if e.short {
		return strings.Replace(s.short, e.before, e.after, 1) + s.source
	}
	return strings.Replace(s.source, e.before, e.after, 1)
}

func (e luaEdit) breaker() breaker {
	return breaker{do: func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		if s := scriptOf(cmd); e.applies(s) {
			cmd.Args = append([]string{"EVAL", e.apply(s)}, cmd.Args[2:]...)
		}
		return next(ctx, cmd)
	}}
}

// changes tells whether there is anything to change: the core may have moved on.
func (e luaEdit) changes() bool {
	for _, s := range scripts() {
		if e.applies(s) {
			return true
		}
	}
	return false
}

// commands breaks the way of single commands.
func commands(f func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error)) func() breaker {
	return func() breaker { return breaker{do: f} }
}
