package goredis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/locker/driver"
)

// A command is one that go-redis sends at most once, and not after its caller has
// gone. It is never used again: a hook of the application may have kept it.
type command struct {
	*redis.Cmd
	of     *exchange
	begun  atomic.Bool  // go-redis has begun to write it
	writes atomic.Int32 // how often, as far as arguments tell
	err    error        // what it has come to, which Cmd does not tell of the first one of a pipeline

	moved   string // where a node has sent it last
	movedAt int32  // after so many writes
}

// newExchange returns that of cmds, which are the caller's again when the call
// returns. All arguments have their bytes in one place.
func (c *conn) newExchange(ctx context.Context, cmds []driver.Command) *exchange {
	e := &exchange{Context: ctx, conn: c}
	if e.commands = e.single[:]; len(cmds) != 1 {
		e.commands = make([]command, len(cmds))
	}
	size, count := 0, 0
	for _, cmd := range cmds {
		count += len(cmd.Args)
		for _, arg := range cmd.Args {
			size += len(arg)
		}
	}
	text, words, args := make([]byte, 0, size), e.words[:], e.args[:]
	if count > len(words) {
		words, args = make([]word, count), make([]any, count)
	}
	for i, cmd := range cmds {
		n := len(cmd.Args)
		args[0] = name(cmd.Args[0])
		for j := 1; j < n; j++ {
			begin := len(text)
			text = append(text, cmd.Args[j]...)
			words[j].text = text[begin:]
			args[j] = &words[j]
			if j > 1 && j == cmd.FirstKey-1 && cmd.Args[j] == strconv.Itoa(cmd.NumKeys) {
				args[j] = cmd.NumKeys // of a script, as go-redis' own have it: hooks that change keys read it
			}
		}
		rc := redis.NewCmd(e, args[:n:n]...)
		if cmd.NumKeys > 0 && cmd.FirstKey <= math.MaxInt8 {
			rc.SetFirstKeyPos(int8(cmd.FirstKey))
		}
		rc.SetStepCount(1) // else a ClusterClient asks the server, by COMMAND
		e.commands[i].Cmd, e.commands[i].of = rc, e
		if n > 1 {
			words[1].first = &e.commands[i]
		}
		words, args = words[n:], args[n:]
	}
	return e
}

// name returns the name of a command, for the most frequent ones without allocating.
func name(s string) any {
	switch s {
	case "EVALSHA":
		return "EVALSHA"
	case "SET":
		return "SET"
	}
	return s
}

// A word is an argument. A string would have to be allocated anew, to stand among
// the others.
type word struct {
	text  []byte
	first *command // whose first argument it is
}

// MarshalBinary is what go-redis writes.
func (w *word) MarshalBinary() ([]byte, error) {
	if w.first != nil {
		w.first.begun.Store(true)
		w.first.writes.Add(1)
	}
	return w.text, nil
}

// String is what it routes by, and what its hooks show.
func (w *word) String() string { return string(w.text) }

// Args is what go-redis writes. Once ctx has ended it begins with something that
// cannot be written, at which go-redis gives up and closes the connection: its
// caller has gone, and a lock that it takes now would be nobody's. The same where the server has
// executed it: in a Cluster go-redis would follow a MOVED in a reply that it cannot read. The same where
// a connection leads to a node that was replaced, see errReplaced.
//
// Others ask for it too, in a Cluster and in hooks; but of a command without arguments, or
// whose first one a hook has replaced, nothing else tells that it is written.
func (c *command) Args() []any {
	args := c.Cmd.Args()
	if len(args) == 1 || !c.tells(args[1]) {
		c.begun.Store(true)
	}
	err := c.of.Err()
	if errors.Is(c.err, errNested) || errors.Is(c.err, errReplaced) {
		err = c.err
	}
	if err != nil {
		args = append([]any{unwritable{err}}, args[1:]...)
	}
	return args
}

// tells reports whether arg is the argument that tells when it is written.
func (c *command) tells(arg any) bool {
	w, ok := arg.(*word)
	return ok && w.first == c
}

type unwritable struct{ err error }

func (u unwritable) MarshalBinary() ([]byte, error) { return nil, u.err }

// SetErr is called by go-redis and by hooks. go-redis closes a connection to a server that
// answers READONLY, since the name that it was made to may lead to another one by now. But
// of a pipeline it looks at the first command alone, so that is the one to tell of it. The
// others lead to the same server: a client of our own drops them before it uses them again.
//
// It is the same where go-redis has not read a reply to its end, see errNested. Of a single command
// it has decided by now that the connection is well, and in a Cluster it looks at no command: there
// only a client of our own can drop it.
func (c *command) SetErr(err error) {
	if c.err == nil && c.Val() != nil && errors.Is(err, errNested) {
		return // another command's, which go-redis gives to those that have their reply, too
	}
	if _, refused := serverError(err); refused && c.Val() != nil {
		err = fmt.Errorf("%w: %v", errNested, err) // hides err: the command was not refused
	}
	err = c.replaced(err)
	c.err = err
	c.Cmd.SetErr(err)
	alone := c.of.conn.mode != driver.ModeCluster // in one pipeline to one server
	if errors.Is(err, errNested) || alone && redis.IsReadOnlyError(err) {
		if alone {
			c.of.commands[0].Cmd.SetErr(err)
		}
		c.of.conn.distrust()
	}
}

// replaced looks for the reply of a node that was replaced, and returns the error that the command has come to.
// A client of our own uses no connection to that node any more, so that go-redis, which follows the reply once more,
// comes to the other one. Of a wrapped client it closes the connection itself, but not that of a pipeline.
func (c *command) replaced(err error) error {
	to, moved := redis.IsMovedError(err)
	if !moved || c.of.conn.mode != driver.ModeCluster {
		return err
	}
	writes := c.writes.Load()
	circle := to == c.moved && writes > c.movedAt // else it is told of one reply again
	c.moved, c.movedAt = to, writes
	switch {
	case !circle:
	case c.of.conn.leave != nil:
		c.of.conn.leave(to)
	case len(c.of.commands) > 1:
		return fmt.Errorf("%w: %v", errReplaced, err) // hides err: go-redis is to close the connection at it
	}
	return err
}

// Err is what hooks see.
func (c *command) Err() error { return c.err }

// NoRetry makes every go-redis client refrain from sending the command again,
// whatever its MaxRetries, also in a pipeline. It also bypasses client-side
// caching.
func (*command) NoRetry() bool { return true }

// Clone keeps a copy from being retried. What becomes of it is not looked at.
func (c *command) Clone() redis.Cmder {
	c.begun.Store(true)
	return &command{Cmd: c.Cmd.Clone().(*redis.Cmd), of: c.of, err: c.err}
}

// An exchange is what go-redis does for one call: one command, or a pipeline. It is
// also the ctx that go-redis sees of that.
type exchange struct {
	context.Context // the caller's
	conn            *conn
	commands        []command
	err             error

	// All that most single commands need.
	single [1]command
	words  [12]word
	args   [12]any
}

// Err tells also that the Conn is closed, so that nothing is sent any more.
func (e *exchange) Err() error {
	if e.conn.life.Err() != nil {
		return context.Canceled
	}
	return e.Context.Err()
}

// Run is called aside, and perhaps alone.
func (e *exchange) Run() {
	if len(e.commands) == 1 {
		e.err = e.conn.client.Process(e, &e.commands[0])
		return
	}
	cmders := make([]redis.Cmder, len(e.commands))
	for i := range e.commands {
		cmders[i] = &e.commands[i]
	}
	pipe := e.conn.client.Pipeline()
	_ = pipe.BatchProcess(e, cmders...)
	_, e.err = pipe.Exec(e)
}
