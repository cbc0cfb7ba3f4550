package locker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// Commands of concurrent callers travel together where the driver is a
// [driver.Batcher]: a batch costs client, server and network little more than one
// command. A caller that is alone sends its command itself, without delay.
//
// Each caller waits for its own context only. A batch that fails leaves each of its
// commands unknown, and each is repeated under its own ids.
type shared struct {
	conn  driver.Conn
	alone atomic.Int32 // commands that travel alone
	line  pipeline[*ticket]
	used  sync.Pool // tickets whose answer has been taken, and which nobody knows any more
}

const (
	// So many commands of a link go out alone. With more at the same time they share.
	maxAlone = 2
	// batchRoom is how many share at most.
	batchRoom = 256
	// Batches under way, usually and on a server that does not answer soon.
	usualBatches = 2
	maxBatches   = 4
)

// newShared returns what shares the commands of a [driver.Batcher] for one part of the
// deployment. A part that hangs holds up no other.
func newShared(conn driver.Conn, crew *aside.Crew) *shared {
	s := &shared{conn: conn}
	s.line.request = func(batch []*ticket) bool {
		travel(conn, batch)
		return true
	}
	s.line.crew, s.line.room, s.line.usual, s.line.most = crew, batchRoom, usualBatches, maxBatches
	return s
}

// A ticket is a command that travels with others.
type ticket struct {
	cmd    driver.Command
	result driver.Result
	done   chan struct{} // has room for one
	trip   atomic.Pointer[trip]
}

// A trip is a batch under way. It ends early when nobody waits for it any more.
type trip struct {
	waiting atomic.Int32
	cancel  context.CancelFunc
}

// withdrawn is the trip of a ticket that was given up before it left.
var withdrawn = new(trip)

func (t *trip) leave() {
	if t.waiting.Add(-1) == 0 {
		t.cancel()
	}
}

// do sends cmd, alone or with others.
func (s *shared) do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if s.alone.Load() < maxAlone && s.line.idle() {
		if s.alone.Add(1) <= maxAlone {
			defer s.alone.Add(-1)
			return s.conn.Do(ctx, cmd)
		}
		s.alone.Add(-1)
	}
	return s.share(ctx, cmd)
}

func (s *shared) share(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(err)
	}
	t, _ := s.used.Get().(*ticket)
	if t == nil {
		t = &ticket{done: make(chan struct{}, 1)}
	}
	t.cmd = cmd
	if !s.line.add(t) {
		return nil, driver.NotSent(ErrClosed)
	}
	own, callers := ends(ctx)
	select {
	case <-t.done:
		return s.reply(t)
	case <-own:
	case <-callers:
	}
	if t.trip.CompareAndSwap(nil, withdrawn) {
		return nil, driver.NotSent(ctx.Err())
	}
	select {
	case <-t.done: // at the same moment: a known outcome is worth more
		return s.reply(t)
	default:
		t.trip.Load().leave()
		return nil, fmt.Errorf("locker: no reply yet: %w", ctx.Err())
	}
}

// reply returns what a ticket has brought, and keeps the ticket for another command.
func (s *shared) reply(t *ticket) (driver.Value, error) {
	v, err := t.result.Value, t.result.Err
	t.cmd, t.result = driver.Command{}, driver.Result{}
	t.trip.Store(nil)
	s.used.Put(t)
	return v, err
}

// travel sends the commands of a batch together.
func travel(conn driver.Conn, batch []*ticket) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	trip := &trip{cancel: cancel}
	trip.waiting.Store(int32(len(batch)))
	cmds := make([]driver.Command, 0, len(batch))
	for i, t := range batch {
		if t.trip.CompareAndSwap(nil, trip) {
			cmds = append(cmds, t.cmd)
		} else {
			batch[i] = nil // withdrawn
			trip.leave()
		}
	}
	if len(cmds) == 0 {
		return
	}
	results := driver.DoBatch(ctx, conn, cmds)
	for _, t := range batch {
		if t != nil {
			t.result, results = results[0], results[1:]
			t.done <- struct{}{}
		}
	}
}
