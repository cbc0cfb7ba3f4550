package locker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// A commandBatcher sends the commands of concurrent callers together, where the driver is a
// [driver.Batcher]: a batch costs client, server and network little more than one
// command. A caller that is alone sends its command itself, without delay.
//
// Each caller waits for its own context only. A batch that fails leaves each of its
// commands unknown, and each is repeated under its own ids.
type commandBatcher struct {
	conn     driver.Conn
	alone    atomic.Int32 // commands that are sent alone
	pipeline pipeline[*pendingCommand]
	spare    sync.Pool // pending commands whose answer has been taken, and which nobody knows any more
}

const (
	// maxAlone is how many commands of a link go out alone at the same time. Any more
	// share a batch.
	maxAlone = 2
	// batchRoom is how many share one at most.
	batchRoom = 256
	// Batches under way, usually and on a server that does not answer soon.
	usualBatches = 2
	maxBatches   = 4
)

// newCommandBatcher returns what batches the commands to a [driver.Batcher] for one part of the
// deployment. A part that hangs holds up no other.
func newCommandBatcher(conn driver.Conn, crew *aside.Crew) *commandBatcher {
	b := &commandBatcher{conn: conn}
	b.pipeline.request = func(pending []*pendingCommand) bool {
		sendBatch(conn, pending)
		return true
	}
	b.pipeline.crew, b.pipeline.room, b.pipeline.usual, b.pipeline.most = crew, batchRoom, usualBatches, maxBatches
	return b
}

// A pendingCommand is one that is sent together with others.
type pendingCommand struct {
	cmd    driver.Command
	result driver.Result
	done   chan struct{} // has room for one
	batch  atomic.Pointer[commandBatch]
}

// A commandBatch is under way. It ends early when nobody waits for it any more.
type commandBatch struct {
	waiting atomic.Int32
	cancel  context.CancelFunc
}

// withdrawn is the batch of a command that was given up before it was sent.
var withdrawn = new(commandBatch)

func (b *commandBatch) leave() {
	if b.waiting.Add(-1) == 0 {
		b.cancel()
	}
}

// do sends cmd, alone or with others.
func (b *commandBatcher) do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if b.alone.Load() < maxAlone && b.pipeline.idle() {
		if b.alone.Add(1) <= maxAlone {
			defer b.alone.Add(-1)
			return b.conn.Do(ctx, cmd)
		}
		b.alone.Add(-1)
	}
	return b.doBatched(ctx, cmd)
}

func (b *commandBatcher) doBatched(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(err)
	}
	p, _ := b.spare.Get().(*pendingCommand)
	if p == nil {
		p = &pendingCommand{done: make(chan struct{}, 1)}
	}
	p.cmd = cmd
	if !b.pipeline.add(p) {
		return nil, driver.NotSent(ErrClosed)
	}
	own, callers := ends(ctx)
	select {
	case <-p.done:
		return b.reply(p)
	case <-own:
	case <-callers:
	}
	if p.batch.CompareAndSwap(nil, withdrawn) {
		return nil, driver.NotSent(ctx.Err())
	}
	select {
	case <-p.done: // at the same moment: a known outcome is worth more
		return b.reply(p)
	default:
		p.batch.Load().leave()
		return nil, fmt.Errorf("locker: no reply yet: %w", ctx.Err())
	}
}

// reply returns what was answered, and keeps p for another command.
func (b *commandBatcher) reply(p *pendingCommand) (driver.Value, error) {
	v, err := p.result.Value, p.result.Err
	p.cmd, p.result = driver.Command{}, driver.Result{}
	p.batch.Store(nil)
	b.spare.Put(p)
	return v, err
}

// sendBatch sends the commands of a batch together.
func sendBatch(conn driver.Conn, pending []*pendingCommand) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	batch := &commandBatch{cancel: cancel}
	batch.waiting.Store(int32(len(pending)))
	cmds := make([]driver.Command, 0, len(pending))
	for i, p := range pending {
		if p.batch.CompareAndSwap(nil, batch) {
			cmds = append(cmds, p.cmd)
		} else {
			pending[i] = nil // withdrawn
			batch.leave()
		}
	}
	if len(cmds) == 0 {
		return
	}
	results := driver.DoBatch(ctx, conn, cmds)
	for _, p := range pending {
		if p != nil {
			p.result, results = results[0], results[1:]
			p.done <- struct{}{}
		}
	}
}
