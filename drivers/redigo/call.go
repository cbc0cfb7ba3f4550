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

// A call is one Do or DoBatch. It is made aside where taking a connection from the
// pool may heed no ctx. A connection on which a call has to end early is broken, so
// that the call ends and the pool drops the connection: a late reply is never read
// as another command's.
type call struct {
	conn      *conn
	ctx       context.Context // the caller's
	borrowing context.Context // in which to wait for a connection
	cmds      []driver.Command
	results   []driver.Result
	heard     time.Time // when the first command was written, or the last reply of a batch read
	unsent    error     // why none of the commands was sent
	known     bool      // something may know of the call still

	mu      sync.Mutex // guards all below
	rc      redis.Conn // while commands are under way on it
	begun   bool       // commands are under way, or were
	over    bool       // the caller wants to return
	silent  bool       // a reply took too long
	demoted bool

	silence *time.Timer // breaks the connection; nil if ctx does so before

	one  [1]driver.Command // of Do
	its  [1]driver.Result
	args [24]any // as many as any command of locks has

	cutOff  func()        // calls Break; made once
	noDials []noDial      // for this call and later ones, given to nobody yet
	ended   chan struct{} // of the noDials until one of their calls is broken; may be nil
}

func newCall(c *conn, ctx context.Context) *call {
	k, ok := c.calls.Get().(*call)
	if !ok {
		k = &call{conn: c}
		k.cutOff = func() { k.Break() }
	}
	k.ctx, k.borrowing = ctx, ctx
	return k
}

func (k *call) recycle() {
	if !k.known {
		*k = call{conn: k.conn, cutOff: k.cutOff, noDials: k.noDials, ended: k.ended}
		k.conn.calls.Put(k)
	}
}

// make makes the call. If it returns an error, nothing was sent, or will be, and the
// call must not be touched any more.
func (k *call) make() error {
	err := k.conn.over(k.ctx)
	switch {
	case err != nil:
	case slices.ContainsFunc(k.cmds, func(cmd driver.Command) bool { return cmd.Name() == "" }):
		err = errors.New("redigo: a command without a name")
	default:
		err = k.run()
	}
	return driver.NotSent(err)
}

// run has the call made. It bounds how long it takes to get a connection, unless ctx
// does so, and there seems to be one.
func (k *call) run() error {
	c, ctx := k.conn, k.ctx
	end, ok := ctx.Deadline()
	bound := ok && time.Until(end) <= c.patience && c.pool.IdleCount() > 0
	if bound && c.prompt != never && k.runHere() {
		return k.unsent
	}
	if !bound {
		bounded, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(c.patience, func() {
			if k.giveUp() {
				cancel()
			}
		}).Stop()
		k.borrowing, k.known = bounded, true
	}
	if c.crew.Call(k.borrowing, c.life.Done(), k) != nil {
		return c.unconnected(ctx, context.DeadlineExceeded)
	}
	return k.unsent
}

var _ aside.Breaker = (*call)(nil)

// Run implements [aside.Breaker].
func (k *call) Run() {
	rc, err := k.conn.borrow(k.borrowing)
	if err != nil {
		k.unsent = k.conn.unconnected(k.ctx, err)
		return
	}
	k.use(rc)
}

// use makes the call on rc.
func (k *call) use(rc redis.Conn) {
	err := k.conn.probe(rc)
	if err == nil {
		err = k.begin(rc)
	}
	if err != nil {
		_ = rc.Close()
		k.unsent = err
		return
	}
	defer k.giveBack(rc)
	if len(k.cmds) == 1 {
		var broken bool
		k.results[0], broken = k.result(rc.Do(k.cmds[0].Args[0], appendArguments(k.args[:0], k.cmds[0])...))
		if broken && rc.Err() == nil { // one of the application's own make may have given up
			sever(rc)
		}
	} else {
		k.pipeline(rc)
	}
}

// begin notes that commands are under way, unless nobody wants them to be any more.
func (k *call) begin(rc redis.Conn) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return k.conn.unconnected(k.ctx, context.DeadlineExceeded)
	}
	if err := k.conn.over(k.ctx); err != nil {
		return err
	}
	k.rc, k.begun, k.heard = rc, true, time.Now()
	if end, ok := k.ctx.Deadline(); !ok || end.Sub(k.heard) > k.conn.silence {
		k.silence, k.known = time.AfterFunc(k.conn.silence, k.hush), true
	}
	return nil
}

// giveUp ends the call if it has had no connection yet.
func (k *call) giveUp() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = k.over || !k.begun
	return k.over
}

// Break implements [aside.Breaker].
func (k *call) Break() bool {
	begun := !k.giveUp()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended != nil {
		close(k.ended)
		k.ended = nil
	}
	if begun && k.rc != nil {
		sever(k.rc)
	}
	return begun
}

// hush ends a call that waits too long for a reply.
func (k *call) hush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rc != nil {
		k.silent = true
		sever(k.rc)
	}
}

// giveBack returns the connection to the pool, which drops it if it is broken.
func (k *call) giveBack(rc redis.Conn) {
	k.mu.Lock()
	k.rc = nil // nobody severs it any more
	k.mu.Unlock()
	if k.silence != nil {
		k.silence.Stop()
	}
	if k.demoted {
		sever(rc)
	}
	_ = rc.Close()
}

// Commands that are no larger together are written before the first reply is read: a
// server takes them in whole, however long nobody reads what it replies.
const smallBatch = 2048

func (k *call) isSmall() bool {
	size := 0
	for _, cmd := range k.cmds {
		for _, arg := range cmd.Args {
			size += len(arg) + 16 // what stands around it
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
		k.results[i], k.heard = result, time.Now()
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
		return driver.Result{Err: k.lost(err)}, true
	case refusal.Code == "READONLY": // have the new master found
		k.demoted = true
		k.conn.distrust(time.Now())
	}
	if k.silence != nil {
		k.silence.Reset(k.conn.silence)
	}
	return result, false
}

// lost is the error of a call whose connection broke, or that was given up, which breaks
// it. The outcome is unknown.
func (k *call) lost(err error) error {
	over := k.conn.over(k.ctx)
	switch {
	case over == nil:
		k.conn.distrust(time.Now())
	case time.Since(k.heard) >= min(telling, k.conn.silence):
		k.conn.distrust(k.heard) // what was heard of since then lives
	}
	if over != nil {
		return over
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.silent:
		err = fmt.Errorf("no reply within %v: %w", k.conn.silence, os.ErrDeadlineExceeded)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = fmt.Errorf("%v, of the connection and not of the caller", err)
	}
	return fmt.Errorf("redigo: %w", err)
}
