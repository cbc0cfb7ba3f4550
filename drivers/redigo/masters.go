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
// Sentinels make it a replica, some ten seconds after a failover that was asked for, and for longer if it is
// cut off: so the connections to it end, whatever they are used for, as soon as another one is known.
type masters struct {
	mu      sync.Mutex
	dialers map[string]*netdial.Dialer // by address
	closed  bool
}

var errFormer = errors.New("the Sentinels name another master")

// dial connects to the server, until another one is the master.
func (m *masters) dial(ctx context.Context, cfg driver.Config, addr string) (net.Conn, error) {
	m.mu.Lock()
	d, known := m.dialers[addr]
	if !known {
		d = netdial.New(cfg)
		if m.closed {
			d.Close()
		} else {
			if m.dialers == nil {
				m.dialers = map[string]*netdial.Dialer{}
			}
			m.dialers[addr] = d
		}
	}
	m.mu.Unlock()
	conn, err := d.Dial(ctx, "tcp", addr)
	if errors.Is(err, driver.ErrClosed) { // the Dialer is, and not the Conn, which looks at that by itself
		err = &netdial.Error{Addr: addr, Err: errFormer}
	}
	return conn, err
}

// former returns those that are not the master, and forgets them.
func (m *masters) former(master string) []*netdial.Dialer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forgetOthers(master)
}

// formerOf is that where a connection to the master was made. It returns false if that is forgotten.
func (m *masters) formerOf(master string) ([]*netdial.Dialer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dialers[master] == nil {
		return nil, false
	}
	return m.forgetOthers(master), true
}

func (m *masters) forgetOthers(master string) (others []*netdial.Dialer) {
	for addr, d := range m.dialers {
		if addr != master {
			others = append(others, d)
			delete(m.dialers, addr)
		}
	}
	return others
}

// leave ends all connections to these.
func (o *opener) leave(former []*netdial.Dialer) {
	if len(former) > 0 {
		o.distrust(time.Now()) // first, so that no call takes one of them
	}
	for _, d := range former {
		d.Close()
	}
}

// close ends all connections, and those that are being made.
func (m *masters) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	for _, d := range m.former("") {
		d.Close()
	}
}
