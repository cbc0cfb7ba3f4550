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

// A command is sent by go-redis at most once, and not after its caller has
// left. It is never used again: a hook of the application may have kept it.
type command struct {
	*redis.Cmd
	of     *exchange
	begun  atomic.Bool  // go-redis has begun to write it
	writes atomic.Int32 // how often, as far as its arguments tell
	err    error        // its outcome; Cmd may have another's error, if it is the first of a pipeline

	moved   string // where a node has last redirected it
	movedAt int32  // the number of writes by then
}

// newExchange returns the exchange of cmds. It copies them, since they belong to the caller again when
// the call returns. The bytes of all arguments lie in one slice.
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
				args[j] = cmd.NumKeys // of a script: an int, as in go-redis' own, since hooks that change keys read it
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

// name returns the name of a command as an interface value, without allocating for the most frequent ones.
func name(s string) any {
	switch s {
	case "EVALSHA":
		return "EVALSHA"
	case "SET":
		return "SET"
	}
	return s
}

// A word is an argument. A string would have to be allocated to become an interface value.
type word struct {
	text  []byte
	first *command // the command whose first argument it is; nil for other arguments
}

// MarshalBinary is what go-redis writes.
func (w *word) MarshalBinary() ([]byte, error) {
	if w.first != nil {
		w.first.begun.Store(true)
		w.first.writes.Add(1)
	}
	return w.text, nil
}

// String is what go-redis routes by, and what hooks show.
func (w *word) String() string { return string(w.text) }

// Args is what go-redis writes. Once ctx has ended its first element is something that
// cannot be written, at which go-redis gives up and closes the connection: the
// caller has left, and a lock taken now would be nobody's. It does the same where the server has
// executed the command already, since in a Cluster go-redis would follow a MOVED inside a reply that it
// cannot read; and where the connection leads to a node that was replaced, see errReplaced.
//
// go-redis calls it for other reasons too, in a Cluster, and so do hooks. But for a command without
// arguments, or whose first one a hook has replaced, nothing else tells that it is written.
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

// SetErr is called by go-redis and by hooks. go-redis closes a connection whose server has
// answered READONLY, since the name that was dialed may lead to another server by now. But
// of a pipeline it looks at the first command alone, so the error is set on that one. The other
// connections lead to the same server: a client of our own drops them before it uses them again.
//
// The same is done where go-redis has not read a reply to its end, see errNested. For a single command
// go-redis has decided by now that the connection is well, and in a Cluster it looks at no command: there
// only a client of our own can drop the connection.
func (c *command) SetErr(err error) {
	if c.err == nil && c.Val() != nil && errors.Is(err, errNested) {
		return // the error of another command, which go-redis also gives to those that have their reply
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

// replaced looks for the reply of a node that was replaced, and returns the command's error.
// A client of our own uses no connection to that node any more, so that go-redis, which follows the redirection once
// more, reaches the new node. In a wrapped client go-redis closes the connection itself, but not that of a pipeline.
func (c *command) replaced(err error) error {
	to, moved := redis.IsMovedError(err)
	if !moved || c.of.conn.mode != driver.ModeCluster {
		return err
	}
	writes := c.writes.Load()
	circle := to == c.moved && writes > c.movedAt // else this is the same reply, told again
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

// Clone keeps a copy from being retried. The outcome of the copy is not looked at.
func (c *command) Clone() redis.Cmder {
	c.begun.Store(true)
	return &command{Cmd: c.Cmd.Clone().(*redis.Cmd), of: c.of, err: c.err}
}

// An exchange is what go-redis does for one call: one command, or a pipeline. It is
// also the context that go-redis sees.
type exchange struct {
	context.Context // the caller's
	conn            *conn
	commands        []command
	err             error

	// Space for what most single commands need.
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

// Run is called in another goroutine, and may go on after the caller has left.
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
