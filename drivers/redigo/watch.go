package redigo

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// beginToListen begins to listen to a Sentinel, which tells when another server becomes the master, unless the opener
// listens already: it keeps a connection to one of the Sentinels as long as one answers. It does not block.
func (o *opener) beginToListen() {
	o.conn.mu.Lock()
	defer o.conn.mu.Unlock()
	if o.conn.life.Err() != nil || o.listening.Swap(true) {
		return
	}
	o.teller.Store(o.sentinel.Load() - 1) // the next one is the first to be dialed
	o.listener.Go(func() {
		refusal, refused := errors.AsType[*driver.ServerError](o.listen())
		// If listening was refused, masterLifetime has to do. Otherwise the next dial tries again.
		o.listening.Store(refused && refusal.Code == "NOPERM")
	})
}

// listen listens until it can no longer, and returns why.
func (o *opener) listen() error {
	sub, err := o.conn.subscriptions.Subscribe(o.conn.life, o.dialTeller)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := sub.Add(o.conn.life, "+switch-master"); err != nil {
		return err
	}
	o.look() // another server may have become the master before
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

// dialTeller connects to a Sentinel; after one was lost, to another one if possible.
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

// look asks the Sentinel that tells of failovers which server is the master.
func (o *opener) look() {
	if master, err := o.askSentinel(o.conn.life, o.cfg.Addrs[o.teller.Load()]); err == nil {
		o.believe(master)
	}
}

// believe leaves all servers but master. The Sentinel that named it becomes the first to be asked when the master is
// dialed: the others may hear of the failover later.
func (o *opener) believe(master string) {
	o.sentinel.Store(o.teller.Load())
	o.leaveFor(master, false)
}
