package redigo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// A call is one Do or DoBatch. To end it early its connection is broken, so that the pool
// drops that: a late reply is never read as another command's.
type call struct {
	conn    *conn
	ctx     context.Context // the caller's
	cmds    []driver.Command
	results []driver.Result
	heard   time.Time // when the first command was written, or the last reply read
	spent   bool      // the connection is not used again
	known   bool      // something may refer to the call still

	silence *time.Timer // cuts the call when a reply takes too long; nil if ctx does so before

	mu sync.Mutex // guards rc
	rc redis.Conn // while commands are under way on it

	one  [1]driver.Command // of Do
	its  [1]driver.Result
	args [24]any // as many as any command of locks has

	cutOff   func()             // cut; made once
	idle     *noDial            // in which it waits for an idle connection; nil if there is none
	noDials  []noDial           // for later calls, not used yet
	uncut    context.Context    // of the noDials until one of their calls is cut
	endUncut context.CancelFunc // nil if there is none
}

func newCall(c *conn, ctx context.Context) *call {
	k, ok := c.calls.Get().(*call)
	if !ok {
		k = &call{conn: c}
		k.cutOff = k.cut
	}
	k.ctx = ctx
	if c.quick && c.pool.IdleCount() > 0 {
		k.idle = k.noDial()
	}
	return k
}

func (k *call) recycle() {
	if !k.known {
		*k = call{conn: k.conn, cutOff: k.cutOff, noDials: k.noDials, uncut: k.uncut, endUncut: k.endUncut}
		k.conn.calls.Put(k)
	}
}

// make makes the call. An error means that nothing was sent.
func (k *call) make() error {
	if slices.ContainsFunc(k.cmds, func(cmd driver.Command) bool { return cmd.Name() == "" }) {
		return driver.NotSent(errors.New("redigo: a command without a name"))
	}
	k.conn.enter(k)
	defer k.conn.leave(k)
	stop := aside.OnEnd(k.ctx, k.cutOff)
	defer func() { k.known = !stop() || k.known }() // else cutOff may be on its way
	err := k.conn.over(k.ctx)
	if err == nil {
		err = k.run()
	}
	return driver.NotSent(err)
}

func (k *call) run() error {
	waiting, cancel := k.ctx, func() {}
	if end, ok := k.ctx.Deadline(); !ok || time.Until(end) > k.conn.patience {
		waiting, cancel = context.WithTimeout(k.ctx, k.conn.patience)
		k.idle = nil // which would not end with it
	}
	defer cancel() // only when all is over: a connection made in it may keep it
	rc, err := k.connect(waiting)
	if err != nil {
		return k.conn.unconnected(k.ctx, err)
	}
	if err = k.begin(rc); err == nil {
		k.exchange(rc)
	}
	k.giveBack(rc) // but not where it panics: a reply may be under way
	return err
}

func (k *call) exchange(rc redis.Conn) {
	if len(k.cmds) > 1 {
		k.pipeline(rc)
		return
	}
	k.results[0], _ = k.result(rc.Do(k.cmds[0].Args[0], appendArguments(k.args[:0], k.cmds[0])...))
}

// begin notes that commands are under way, unless the call has to end.
func (k *call) begin(rc redis.Conn) error {
	if err := k.conn.probe(rc); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.conn.over(k.ctx); err != nil {
		return err
	}
	k.rc, k.heard = rc, time.Now()
	if end, ok := k.ctx.Deadline(); !ok || end.Sub(k.heard) > k.conn.silence {
		k.silence, k.known = time.AfterFunc(k.conn.silence, k.cutOff), true
	}
	return nil
}

// cut ends the call: a reply takes too long, or its ctx has ended, or the Conn is closed, as begin sees.
func (k *call) cut() {
	if k.endUncut != nil {
		k.endUncut()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rc != nil {
		sever(k.rc)
	}
}

// giveBack returns the connection to the pool, which drops it if it is broken.
func (k *call) giveBack(rc redis.Conn) {
	k.mu.Lock()
	k.rc = nil // so that it is not severed any more
	k.mu.Unlock()
	if k.silence != nil {
		k.silence.Stop()
	}
	if k.spent {
		sever(rc)
	}
	_ = rc.Close()
}

// smallBatch is the size up to which all commands are written before the first reply is read: a
// server reads them to the end, even while nobody reads its replies.
const smallBatch = 2048

func (k *call) isSmall() bool {
	size := 0
	for _, cmd := range k.cmds {
		for _, arg := range cmd.Args {
			size += len(arg) + 16 // for the protocol around it
		}
	}
	return size <= smallBatch
}

// pipeline sends the commands together.
func (k *call) pipeline(rc redis.Conn) {
	var writer sync.WaitGroup
	write := func() {
		args := k.args[:0]
		for _, cmd := range k.cmds {
			args = appendArguments(args[:0], cmd)
			if rc.Send(cmd.Args[0], args...) != nil {
				return
			}
		}
		_ = rc.Flush() // if it fails, so does Receive
	}
	if k.isSmall() {
		write()
	} else {
		writer.Go(write)
	}
	for i := range k.results {
		result, broken := k.result(rc.Receive())
		if broken {
			sever(rc)
			writer.Wait()
			copy(k.results[i:], slices.Repeat([]driver.Result{result}, len(k.results)-i))
			return
		}
		k.results[i] = result
	}
	writer.Wait()
}

// result makes a Result of what redigo returned, and reports whether the
// connection is of no more use because of it.
func (k *call) result(reply any, err error) (result driver.Result, broken bool) {
	result.Err = answered(err)
	refusal, _ := errors.AsType[*driver.ServerError](result.Err)
	switch {
	case err == nil:
		result.Value = value(reply)
	case refusal == nil:
		k.spent = true // redigo's own connection is broken anyway; one of the application's own type may merely have stopped waiting
		return driver.Result{Err: k.lost(err)}, true
	case refusal.Code == "READONLY": // have the new master found
		k.spent = true
		k.conn.distrust(time.Now())
	case turnsAway(refusal):
		k.spent = true
	}
	k.heard = time.Now()
	if k.silence != nil {
		k.silence.Reset(k.conn.silence)
	}
	return result, false
}

// lost returns the error of a call whose connection broke, or that was given up, which breaks
// its connection. The outcome is unknown.
func (k *call) lost(err error) error {
	if over := k.conn.over(k.ctx); over != nil {
		if time.Since(k.heard) >= min(telling, k.conn.silence) {
			k.conn.distrust(k.heard) // connections that were used since then work
		}
		return over
	}
	k.conn.distrust(time.Now())
	switch {
	case time.Since(k.heard) >= k.conn.silence:
		err = fmt.Errorf("no reply within %v: %w", k.conn.silence, os.ErrDeadlineExceeded)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = fmt.Errorf("%v, of the connection and not of the caller", err)
	}
	return fmt.Errorf("redigo: %w", err)
}
