package redigo

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// A watch is told by a Sentinel when another server becomes the master. It keeps a connection to
// one of them as long as one answers.
type watch struct {
	ctx      context.Context // ends with close
	end      context.CancelFunc
	mu       sync.Mutex
	begun    bool // or refused by the Sentinel's ACL
	group    pubsub.Group
	running  sync.WaitGroup
	sentinel atomic.Int64 // index of the one that tells
	next     atomic.Int64 // index of the one to be tried next
}

// begin has the opener told, if it is not yet. It waits for nothing.
func (w *watch) begin(o *opener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun || w.ctx.Err() != nil {
		return
	}
	w.begun = true
	w.next.Store(o.sentinel.Load())
	w.running.Go(func() {
		refusal, refused := errors.AsType[*driver.ServerError](w.run(o))
		if refused && refusal.Code == "NOPERM" {
			return // what there is besides is masterLifetime
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.begun = false // the next dial tries again
	})
}

// run returns why it is told nothing any more.
func (w *watch) run(o *opener) error {
	sub, err := w.group.Subscribe(w.ctx, func(ctx context.Context) (pubsub.Conn, error) { return w.dial(ctx, o) })
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := sub.Add(w.ctx, "+switch-master"); err != nil {
		return err
	}
	w.look(o) // it may have become another one before
	for {
		m, err := sub.Receive(w.ctx)
		switch {
		case errors.Is(err, driver.ErrGap):
			w.look(o)
		case err != nil:
			return err
		default:
			w.hear(o, strings.Fields(m.Payload))
		}
	}
}

// dial connects to a Sentinel; to another one if it can be, where one was lost.
func (w *watch) dial(ctx context.Context, o *opener) (pubsub.Conn, error) {
	n := int64(len(o.cfg.Addrs))
	var failures []error
	for range n {
		sentinel := w.next.Load() % n
		w.next.Store(sentinel + 1)
		rc, err := o.dialSentinel(ctx, o.cfg.Addrs[sentinel])
		if err == nil {
			w.sentinel.Store(sentinel)
			return newPubsubConn(rc)
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// look asks the Sentinel that tells of failovers who the master is.
func (w *watch) look(o *opener) {
	if master, err := o.askSentinel(w.ctx, o.cfg.Addrs[w.sentinel.Load()]); err == nil {
		w.believe(o, master)
	}
}

// hear takes what it told: a name, the address of the former master and that of the new one.
func (w *watch) hear(o *opener, told []string) {
	if len(told) == 5 && told[0] == o.cfg.Master {
		w.believe(o, net.JoinHostPort(told[3], told[4]))
	}
}

// believe leaves all others. The Sentinel that said so becomes the first to be asked when the master is
// dialed: the others may hear of it later.
func (w *watch) believe(o *opener, master string) {
	o.sentinel.Store(w.sentinel.Load())
	o.leave(o.masters.former(master))
}

func (w *watch) close() {
	w.mu.Lock()
	w.end() // and nothing is begun after that
	w.mu.Unlock()
	_ = w.group.Close()
	w.running.Wait()
}
