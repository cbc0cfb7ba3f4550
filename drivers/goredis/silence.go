package goredis

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// hosts are the hosts that a client of our own has connections to. Where a host has died, or a
// NAT has forgotten its flows, all connections are dead and none says so: each would cost some
// call its timeout, one after the other. So when one connection has broken, or is late with a reply,
// those to the same host that have brought nothing since, or since that request, are in doubt. go-redis
// looks at each connection before it uses it, and is told then that these are broken. Connections to other
// hosts are not in doubt: a node of a Cluster that hangs costs the others nothing. Nor does a server that is
// always late have to shake hands all the time: the connections in use bring something.
//
// When a server has answered READONLY, its name may lead to another server by now, and all present
// connections may be to a former master. They work, and that they bring something proves nothing.
// The same holds where go-redis has not read a reply to its end, since it does not tell on which connection.
// When a node of a Cluster redirects commands to its own address, that address leads to another node by now:
// see errReplaced.
type hosts struct {
	dial       driver.DialFunc
	shaking    time.Duration // how long connecting may take, handshakes included
	patience   time.Duration // how long after a request its reply is late
	begun      time.Time     // from which all times are counted
	distrusted atomic.Int64  // when all connections were, the last time; 0 for never

	mu   sync.Mutex
	open map[*watched]struct{}
}

// patience is that of hosts, unless half the timeout of a reply is shorter. It has to be over before a
// call gives up, since the next call looks at its connection at once. And it has to be longer than most
// replies of a healthy server take, since a later one has the connections that were idle meanwhile made anew.
const patience = 400 * time.Millisecond

func newHosts(dial driver.DialFunc, dialTimeout, timeout time.Duration) *hosts {
	return &hosts{dial: dial, shaking: dialTimeout, patience: min(patience, timeout/2), begun: time.Now(), open: map[*watched]struct{}{}}
}

// Dial is go-redis' dialer.
func (h *hosts) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	begun, lookedUp := time.Now(), h.now()
	conn, err := h.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &watched{Conn: conn, hosts: h, addr: addr, shakenBy: begun.Add(h.shaking), lookedUp: lookedUp}
	c.late = time.AfterFunc(h.patience, func() { h.doubt(addr, h.now()-int64(h.patience)) })
	c.late.Stop()
	c.heard.Store(h.now())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[c] = struct{}{}
	return c, nil
}

// now is a time in ns, above 0.
func (h *hosts) now() int64 { return int64(time.Since(h.begun)) + 1 }

// A watched connection is retired if it is in doubt, or if it was made before all connections, or all to its
// address, were distrusted.
type watched struct {
	net.Conn
	hosts    *hosts
	addr     string       // of its host
	shakenBy time.Time    // when the handshake has to be over; zero when it is
	lookedUp int64        // when its address was looked up, or a moment before
	expects  atomic.Bool  // a reply: a read that waits for messages has no deadline
	late     *time.Timer  // of that reply
	heard    atomic.Int64 // when it last brought something
	doubtful atomic.Bool  // it has brought nothing since it came into doubt
	left     atomic.Bool  // its address leads to another server by now
	turned   error        // that the server refused the connection, if it did
}

var _ syscall.Conn = (*watched)(nil)

// SetReadDeadline implements [net.Conn]. During the handshake the deadline of connecting applies if it is
// earlier. (Writing needs none: the socket's buffer has room for a whole handshake.) SetDeadline, by which
// go-redis removes the deadlines of an idle connection, is that of the embedded Conn.
func (c *watched) SetReadDeadline(t time.Time) error {
	c.expects.Store(!t.IsZero())
	if !c.shakenBy.IsZero() && c.shakenBy.Before(t) {
		t = c.shakenBy
	}
	return c.Conn.SetReadDeadline(t)
}

// Write implements [net.Conn]. go-redis gives its handshake the timeouts of commands, and does
// not say when that of a connection is over: the first other command shows it.
func (c *watched) Write(p []byte) (int, error) {
	if !c.shakenBy.IsZero() && !shakesHands(p) {
		c.shakenBy = time.Time{}
	}
	return c.Conn.Write(p)
}

// shakesHands reports whether a request is one that go-redis makes during a handshake.
func shakesHands(request []byte) bool {
	lines := strings.SplitN(string(request[:min(len(request), 32)]), "\r\n", 4)
	return len(lines) == 4 && slices.Contains([]string{"hello", "auth", "select", "client"}, lines[2])
}

// Read implements [net.Conn].
func (c *watched) Read(p []byte) (int, error) {
	if c.expects.Load() {
		c.late.Reset(c.hosts.patience)
		defer c.late.Stop()
	}
	n, err := c.Conn.Read(p)
	if !c.shakenBy.IsZero() && c.turned == nil {
		c.turned = turnsAway(p[:n])
	}
	if c.turned != nil {
		return 0, c.turned // each time: go-redis swallows the first error where it looks for RESP3 pushes
	}
	switch {
	case n > 0:
		c.heard.Store(c.hosts.now())
		c.doubtful.Store(false)
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed):
		c.hosts.doubt(c.addr, c.hosts.now())
	}
	return n, err
}

// doubt puts in doubt the connections to addr that have brought nothing after the time at.
func (h *hosts) doubt(addr string, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.open {
		if c.addr == addr && c.heard.Load() <= at {
			c.doubtful.Store(true)
		}
	}
}

// distrust retires all connections, also those that are being dialed: their name may have been looked
// up already.
func (h *hosts) distrust() {
	h.mu.Lock() // else an earlier time might come later
	defer h.mu.Unlock()
	h.distrusted.Store(h.now())
}

// leave retires the connections to addr.
func (h *hosts) leave(addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.open {
		if c.addr == addr {
			c.left.Store(true)
		}
	}
}

// Close implements [net.Conn].
func (c *watched) Close() error {
	c.hosts.mu.Lock()
	delete(c.hosts.open, c)
	c.hosts.mu.Unlock()
	return c.Conn.Close()
}

var errInDoubt = errors.New("goredis: another connection has broken, is late, was answered READONLY, leads to a node that was replaced, or has a reply that cannot be read")

// SyscallConn is what go-redis asks for before it uses a connection, to see whether the
// server has closed it. It drops the connection at an error.
func (c *watched) SyscallConn() (syscall.RawConn, error) {
	if c.doubtful.Load() || c.left.Load() || c.lookedUp <= c.hosts.distrusted.Load() {
		return nil, errInDoubt
	}
	below := c.Conn
	if secure, ok := below.(interface{ NetConn() net.Conn }); ok {
		// Bytes that wait there when no reply is under way are the alert by which TLS is closed. (They may also be
		// another record of TLS itself; then a connection is made needlessly. Session tickets come before the first reply.)
		below = secure.NetConn()
	}
	if conn, ok := below.(syscall.Conn); ok {
		return conn.SyscallConn()
	}
	return unseen{}, nil
}

// unseen stands for a connection that cannot be looked at, such as one that a Dial function made.
type unseen struct{}

func (unseen) Control(func(uintptr)) error    { return nil }
func (unseen) Read(func(uintptr) bool) error  { return nil }
func (unseen) Write(func(uintptr) bool) error { return nil }
