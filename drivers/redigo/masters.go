package redigo

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/netdial"
)

// masters are the servers that Sentinels have named. A former master goes on granting locks until the
// Sentinels make it a replica: for some ten seconds after a failover that was asked for, and for longer if it is
// cut off. So the connections to it end, whatever they are used for, as soon as another master is known.
type masters struct {
	mu      sync.Mutex
	dialers map[string]*netdial.Dialer // by address
}

var errFormer = errors.New("the Sentinels name another master")

// dialNamed connects to a server that a Sentinel has named, until another one is the master.
func (o *opener) dialNamed(ctx context.Context, _, addr string) (net.Conn, error) {
	o.masters.mu.Lock()
	d := o.masters.dialers[addr]
	if d == nil {
		d = netdial.New(o.cfg)
		o.masters.dialers[addr] = d
	}
	if o.conn.life.Err() != nil {
		d.Close()
	}
	o.masters.mu.Unlock()
	conn, err := d.Dial(ctx, "tcp", addr)
	if errors.Is(err, driver.ErrClosed) { // the Dialer is closed; whether the Conn is, that checks by itself
		err = &netdial.Error{Addr: addr, Err: errFormer}
	}
	return conn, err
}

// leaveFor ends all connections but those to master, since a Sentinel has named it or a connection to it was made. If
// one was made, but master has been left meanwhile, leaveFor ends none and returns false.
func (o *opener) leaveFor(master string, made bool) bool {
	o.masters.mu.Lock()
	defer o.masters.mu.Unlock()
	if made && o.masters.dialers[master] == nil {
		return false
	}
	for addr, d := range o.masters.dialers {
		if addr != master {
			delete(o.masters.dialers, addr)
			o.distrust(time.Now()) // first, so that no call takes one of them
			d.Close()
		}
	}
	return true
}
