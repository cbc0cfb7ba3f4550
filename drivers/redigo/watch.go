package redigo

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// beginToListen has the opener told by a Sentinel when another server becomes the master, if it is not yet: it
// keeps a connection to one of them as long as one answers. It waits for nothing.
func (o *opener) beginToListen() {
	o.conn.mu.Lock()
	defer o.conn.mu.Unlock()
	if o.conn.life.Err() != nil || o.listening.Swap(true) {
		return
	}
	o.teller.Store(o.sentinel.Load() - 1) // the next one is the first to be dialed
	o.listener.Go(func() {
		refusal, refused := errors.AsType[*driver.ServerError](o.listen())
		// If it was refused, what there is besides is masterLifetime. Else the next dial tries again.
		o.listening.Store(refused && refusal.Code == "NOPERM")
	})
}

// listen returns why the opener is told nothing any more.
func (o *opener) listen() error {
	sub, err := o.conn.subscriptions.Subscribe(o.conn.life, o.dialTeller)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := sub.Add(o.conn.life, "+switch-master"); err != nil {
		return err
	}
	o.look() // it may have become another one before
	for {
		m, err := sub.Receive(o.conn.life)
		told := strings.Fields(m.Payload) // a name, the address of the former master and that of the new one
		switch {
		case errors.Is(err, driver.ErrGap):
			o.look()
		case err != nil:
			return err
		case len(told) == 5 && told[0] == o.cfg.Master:
			o.believe(net.JoinHostPort(told[3], told[4]))
		}
	}
}

// dialTeller connects to a Sentinel; to another one if it can be, where one was lost.
func (o *opener) dialTeller(ctx context.Context) (pubsub.Conn, error) {
	var failures []error
	for range o.cfg.Addrs {
		next := (o.teller.Load() + 1) % int64(len(o.cfg.Addrs))
		o.teller.Store(next)
		rc, err := o.dialSentinel(ctx, o.cfg.Addrs[next])
		if err == nil {
			return newPubsubConn(rc)
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// look asks the Sentinel that tells of failovers who the master is.
func (o *opener) look() {
	if master, err := o.askSentinel(o.conn.life, o.cfg.Addrs[o.teller.Load()]); err == nil {
		o.believe(master)
	}
}

// believe leaves all others. The Sentinel that said so becomes the first to be asked when the master is
// dialed: the others may hear of it later.
func (o *opener) believe(master string) {
	o.sentinel.Store(o.teller.Load())
	o.leaveFor(master, false)
}
