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

// hosts are those that a client of our own has connections to. Where a host has died, or a
// NAT has forgotten its flows, all connections are dead and none says so: each would cost a
// call its time, one after the other. So when one has broken, or is late with a reply,
// those that have brought nothing since, or since that request, are in doubt, and go-redis, which
// looks at each before it uses it, is told that they are broken. In doubt are only those to the
// same host: in a Cluster, one that hangs costs the others nothing. And a server that is late all the
// time need not shake hands all the time, too: those in use bring something.
//
// When a server has answered READONLY, its name may lead to another one, and all connections that
// there are may be to a former master. They are well, and what they bring says nothing for them.
// Nor does it where go-redis has not read a reply to its end: it does not tell on which of them. When a node
// of a Cluster sends commands to its own address, that leads to another one by now: see errReplaced.
type hosts struct {
	dial       driver.DialFunc
	shaking    time.Duration // how long connecting may take, handshakes included
	patience   time.Duration // how long after a request its reply is late
	begun      time.Time     // from which all times are counted
	distrusted atomic.Int64  // when all were last; 0 for never

	mu   sync.Mutex
	open map[*watched]struct{}
}

// patience is that of hosts, or half the timeout of a reply. It has to be over before a call gives
// up, since the next one looks at once; and it has to be longer than most replies of a server
// that is well, since after a later one those connections are made again that were idle meanwhile.
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

// A watched connection is not used any more if it is in doubt, or if it was made before all, or those to its address,
// were distrusted.
type watched struct {
	net.Conn
	hosts    *hosts
	addr     string       // of its host
	shakenBy time.Time    // when the handshake has to be over; zero when it is
	lookedUp int64        // when its address was, or a moment before
	expects  atomic.Bool  // a reply: what waits for messages sets no deadline
	late     *time.Timer  // of that reply
	heard    atomic.Int64 // when it last brought something
	doubtful atomic.Bool  // it has brought nothing since its host is in doubt
	left     atomic.Bool  // its address leads to another server by now
	turned   error        // the server does not take it
}

var _ syscall.Conn = (*watched)(nil)

// SetReadDeadline implements [net.Conn]. During the handshake the deadline is that of connecting if
// it is earlier. (There is room for all that a handshake writes, which needs no deadline.) SetDeadline,
// by which go-redis takes the deadlines from an idle connection, is the Conn's.
func (c *watched) SetReadDeadline(t time.Time) error {
	c.expects.Store(!t.IsZero())
	if !c.shakenBy.IsZero() && c.shakenBy.Before(t) {
		t = c.shakenBy
	}
	return c.Conn.SetReadDeadline(t)
}

// Write implements [net.Conn]. go-redis gives its handshake the timeouts of commands, and does
// not say of which connection it is over: the first other command does.
func (c *watched) Write(p []byte) (int, error) {
	if !c.shakenBy.IsZero() && !shakesHands(p) {
		c.shakenBy = time.Time{}
	}
	return c.Conn.Write(p)
}

// shakesHands reports whether a request is one of which go-redis' handshakes are made.
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
		return 0, c.turned // each time: who looks for pushes of RESP3 keeps the first error to himself
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

// doubt puts in doubt what goes to addr and has brought nothing after the time at.
func (h *hosts) doubt(addr string, at int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.open {
		if c.addr == addr && c.heard.Load() <= at {
			c.doubtful.Store(true)
		}
	}
}

// distrust puts in doubt what there is, and what is being dialed: the name may have been looked
// up already.
func (h *hosts) distrust() {
	h.mu.Lock() // else an earlier time might come later
	defer h.mu.Unlock()
	h.distrusted.Store(h.now())
}

// leave has the connections to addr used no more.
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
		// What stands there when no reply is under way is the alert by which TLS is closed. (It may be a record
		// of TLS itself, which costs another connection. The tickets of a session come before the first reply.)
		below = secure.NetConn()
	}
	if conn, ok := below.(syscall.Conn); ok {
		return conn.SyscallConn()
	}
	return unseen{}, nil
}

// unseen is a connection that cannot be looked at, such as one that a Dial function made.
type unseen struct{}

func (unseen) Control(func(uintptr)) error    { return nil }
func (unseen) Read(func(uintptr) bool) error  { return nil }
func (unseen) Write(func(uintptr) bool) error { return nil }
