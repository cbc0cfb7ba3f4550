package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
)

// ErrClosed is what Dial returns after Close.
var ErrClosed = errors.New("wire: closed")

// A Backend opens a connection to the server.
type Backend func(ctx context.Context) (net.Conn, error)

// TCP is the Backend that dials addr.
func TCP(addr string) Backend {
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
}

// A Wire passes connections on to one server. All methods may be called from
// many goroutines. Inside a synctest bubble a Wire has to be made there and
// must not Listen.
type Wire struct {
	backend Backend
	stop    chan struct{} // closed by Close
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	rules    []*Rule
	conns    map[*conn]struct{}
	requests []*Request
	forget   bool // requests are not noted
	broken   []string
	dials    int
	made     int
	kills    int // how often all connections were killed
	refuse   bool
	hang     chan struct{} // not nil: dials wait for this
	gates    [ways]gate
	listener *listener
}

var _ io.Closer = (*Wire)(nil)

// New returns a Wire to backend. It does no I/O.
func New(backend Backend) *Wire {
	w := &Wire{backend: backend, stop: make(chan struct{}), conns: map[*conn]struct{}{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Dial opens an in-memory connection through the wire. Its signature is that of
// [net.Dialer.DialContext]; network and addr are only used in errors.
func (w *Wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	fail := func(err error) error {
		return &net.OpError{Op: "dial", Net: network, Addr: address{network, addr}, Err: err}
	}
	kills, err := w.admit(ctx)
	if err != nil {
		return nil, fail(err)
	}
	server, err := w.backend(ctx)
	if err != nil {
		return nil, fail(err)
	}
	client, ours := net.Pipe()
	if err := w.connect(ours, server, kills); err != nil {
		_ = client.Close()
		return nil, fail(err)
	}
	return client, nil
}

// admit counts a dial and lets it pass, wait or fail. It returns how often all connections
// have been killed before.
func (w *Wire) admit(ctx context.Context) (kills int, err error) {
	w.mu.Lock()
	w.dials++
	w.mu.Unlock()
	for {
		w.mu.Lock()
		closed, refuse, wait := w.closed, w.refuse, w.hang
		kills = w.kills
		for _, g := range w.gates { // neither way may be shut for a handshake
			if wait == nil {
				wait = g
			}
		}
		w.mu.Unlock()
		switch {
		case closed:
			return 0, ErrClosed
		case refuse:
			return 0, syscall.ECONNREFUSED
		case wait == nil:
			return kills, ctx.Err()
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-w.stop:
			return 0, ErrClosed
		}
	}
}

// connect starts to pass on what comes from client and server. It takes both over, even
// when it fails. A dial that was under way when all connections were killed, or when dials
// were refused, comes too late.
func (w *Wire) connect(client, server net.Conn, kills int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	switch {
	case w.closed:
		err = ErrClosed
	case w.refuse:
		err = syscall.ECONNREFUSED
	case w.kills != kills:
		err = syscall.ECONNRESET
	}
	if err != nil {
		_ = client.Close()
		_ = server.Close()
		return err
	}
	w.made++
	c := &conn{
		wire: w, id: w.made, client: client, server: server,
		up: newQueue(), down: newQueue(), stop: make(chan struct{}),
	}
	w.conns[c] = struct{}{}
	w.running.Go(c.run)
	return nil
}

// On adds a rule. The first rule, in order of adding, that applies to a request
// decides about it.
func (w *Wire) On(m Match, a Action) *Rule {
	r := &Rule{wire: w, match: m, action: a, happened: make(chan struct{}), released: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
	return r
}

// Refuse makes new dials fail as if nobody listened, or ends that. Connections
// that are open are not touched.
func (w *Wire) Refuse(refuse bool) {
	w.mu.Lock()
	w.refuse = refuse
	l := w.listener
	w.mu.Unlock()
	if l != nil {
		l.pause(refuse)
	}
}

// HangDials makes new dials hang until ResumeDials; through a listener they are
// accepted by the kernel and never served.
func (w *Wire) HangDials() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hang == nil {
		w.hang = make(chan struct{})
	}
}

// ResumeDials ends HangDials: dials that hang get their connection.
func (w *Wire) ResumeDials() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hang != nil {
		close(w.hang)
		w.hang = nil
	}
}

// Partition stops everything in both directions, new dials included, until Heal.
// As on a real network nothing is lost by that: what was sent arrives after
// Heal, even if its sender has given up by then. Call KillAll before Heal for a
// partition that outlived every retransmission.
func (w *Wire) Partition() { w.shut(up, down) }

// PartitionRequests is Partition, but what the server sends still arrives.
func (w *Wire) PartitionRequests() { w.shut(up) }

// PartitionReplies is Partition, but what clients send still arrives: the server
// executes it.
func (w *Wire) PartitionReplies() { w.shut(down) }

// Heal ends a Partition, also one of one direction.
func (w *Wire) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.gates {
		w.gates[i].open()
	}
}

func (w *Wire) shut(ways ...way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, to := range ways {
		w.gates[to].shut()
	}
}

// Mute makes every connection that is open now a black hole, for ever: it stays
// open and swallows everything in both directions. New dials are not touched.
func (w *Wire) Mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.muteUp, c.muteDown = true, true
	}
}

// KillAll closes every connection that is open now, on both sides. What they
// held is lost.
func (w *Wire) KillAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kills++
	for c := range w.conns {
		c.kill()
	}
}

// Reset is KillAll, but clients and server find their connections reset, not
// closed, where these are TCP.
func (w *Wire) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kills++
	for c := range w.conns {
		c.reset()
	}
}

// Close closes all connections and returns when no goroutine of the wire is
// left. It is idempotent.
func (w *Wire) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.stop)
		w.cancel()
	}
	for c := range w.conns {
		c.kill()
	}
	l := w.listener
	w.mu.Unlock()
	if l != nil {
		l.close()
	}
	w.running.Wait()
	return nil
}

func (w *Wire) partition(to way) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gates[to]
}

func (w *Wire) report(c *conn, side string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf("conn %d: the %s: %v", c.id, side, err))
}

type address struct{ network, addr string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.addr }
