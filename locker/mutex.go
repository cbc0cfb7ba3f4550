package locker

import (
	"context"
	"fmt"
	"time"
)

// A Mutex describes a lock: its name and options. It holds no ownership; the [Lease] does. It
// is immutable and may be kept, shared and used from any number of goroutines, or made anew for
// each use. It comes from [Client.Mutex]; the zero Mutex is of no use.
type Mutex struct {
	// What every renewal needs lies together.
	client  *Client
	cfg     *lockConfig // the client's own where no option was given
	ttl     time.Duration
	px      string // the same in ms
	keys    keys
	mode    mode
	linesUp bool // those who lock it stand in a line
	name    string
	tail    string // "<label>|<metadata>" of the record
	problem error  // why it cannot be locked, from its name or options
}

// Mutex returns the lock with the given name. Options set here take precedence over those of
// the client. A name or an option that cannot be used is reported as [ErrInvalid] by every
// method that would take the lock.
//
// The name, after the client's [Prefix], is the server's key. It may hold any bytes,
// braces included; with the prefix it has from 1 to 1024 of them.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	if len(opts) == 0 {
		m := &Mutex{client: c, name: name, cfg: &c.cfg.lock}
		return m.finish()
	}
	m := c.mutexOfItsOwn(name, &c.cfg.lock)
	m.cfg.chosen = "" // what the client is set to may be replaced
	for _, o := range opts {
		if o == nil {
			m.cfg.reject("a nil Option; leave it out")
			continue
		}
		o.applyLock(m.cfg)
	}
	return m.finish()
}

// mutexOfItsOwn returns a Mutex with a copy of cfg, for changes.
func (c *Client) mutexOfItsOwn(name string, cfg *lockConfig) *Mutex {
	both := &struct {
		mutex Mutex
		cfg   lockConfig
	}{cfg: *cfg}
	m := &both.mutex
	m.client, m.name, m.cfg = c, name, &both.cfg
	return m
}

// inMode returns the same lock in another mode.
func (m *Mutex) inMode(to mode) *Mutex {
	other := m.client.mutexOfItsOwn(m.name, m.cfg)
	other.cfg.mode = to
	return other.finish()
}

// finish derives from the name and options what all calls need.
func (m *Mutex) finish() *Mutex {
	c := m.client
	key := c.cfg.prefix + m.name
	if m.problem = m.check(key); m.problem != nil {
		return m
	}
	m.keys = newKeys(key)
	m.tail = c.tail
	if m.cfg.metadata != c.cfg.lock.metadata {
		m.tail = c.cfg.label + "|" + m.cfg.metadata
	}
	m.mode, m.ttl = m.cfg.mode, m.cfg.ttl
	if m.mode == modeRead && m.cfg.readTTL > 0 {
		m.ttl = m.cfg.readTTL
	}
	m.px = c.px
	if m.ttl != c.cfg.lock.ttl {
		m.px = millis(m.ttl)
	}
	m.linesUp = m.standsInLine()
	return m
}

// check returns why the lock cannot be used.
func (m *Mutex) check(key string) error {
	if m.client.store == nil {
		return zeroClient()
	}
	if m.name == "" {
		return checkName("")
	}
	if m.cfg.problem != nil {
		return m.cfg.problem
	}
	if err := checkName(key); err != nil {
		return err
	}
	if q := m.client.quorum; q != nil {
		return q.checkTTL(max(m.cfg.ttl, m.cfg.readTTL))
	}
	return nil
}

// attempt is how long one request may take.
func (m *Mutex) attempt() time.Duration { return min(m.cfg.attemptTimeout, m.ttl-margin(m.ttl)) }

// Name returns the name as it was given to [Client.Mutex].
func (m *Mutex) Name() string { return m.name }

// Lock takes the lock, waiting for it while it is held by others. ctx bounds the
// waiting only: the lease lives on when ctx ends.
//
// It returns
//   - a [*WaitError] when ctx ends, or the [WaitTimeout] passes, before the lock is acquired;
//     it also tells why: the lock is held, and by whom, or the server is unavailable, which is
//     also what it tells if the server has not answered at all by then;
//   - a [*LockedError] (or ErrUnavailable) when the [Retry] policy gives up;
//   - without a wait, a *WaitError that is [ErrTooManyWaiters] if the call would have to wait
//     while [MaxWaiters] calls of the client already do;
//   - [ErrUnavailable] if the very first request of the client gets no reply, so that a wrong
//     address shows: at once where the connection is refused, and after one to three times the
//     [AttemptTimeout] where nothing answers. A later outage is waited out, and so, at any
//     time, is a server that answers that it cannot serve now (LOADING, or READONLY of a
//     replica, which may be promoted);
//   - [ErrLost] where, for all that is known here, the owner holds a [Fenced] lock already, and
//     the server, which had to be asked, turns out to have lost that lease: others may have
//     written since, and that lease is over, too;
//   - at once, what waiting cannot mend: [ErrDeadlock], [ErrForeign], [ErrInvalid],
//     [ErrClosed], [ErrPermission], a [*driver.ServerError] such as OOM.
//
// After an error the lock is not held and nothing is left behind: what a request
// without reply may have taken is released in the background.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	if m.client.observers != nil {
		return m.observed(ctx, "lock", m.lockWaiting)
	}
	return m.lockWaiting(ctx)
}

func (m *Mutex) lockWaiting(ctx context.Context) (*Lease, error) {
	switch {
	case !m.linesUp:
		return m.lock(ctx, true)
	case m.cfg.waitTimeout > 0:
		return m.lockInLineWithin(ctx)
	}
	return m.lockInLine(ctx)
}

// TryLock takes the lock if it is free, and returns a [*LockedError] if it is not. It does not
// wait, except for the server's reply. Where the reply is lost it asks again under the same id,
// so that the answer is the right one. On a quorum whose vote is split it also asks again, a
// few times within some 100 ms. A server that says nothing delays TryLock until ctx ends, or
// for three times the [AttemptTimeout] (on a quorum the NodeTimeout) and about a second,
// whatever the [WaitTimeout]. Its other errors are those of Lock: a [*WaitError] where ctx ends
// before the reply, and ErrUnavailable where the server cannot be reached, or cannot serve,
// whichever request of the client it is.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	if m.client.observers != nil {
		return m.observed(ctx, "try", func(ctx context.Context) (*Lease, error) { return m.lock(ctx, false) })
	}
	return m.lock(ctx, false)
}

// Attach takes up a lease that [Lease.Detach] left on the server, by the id that Detach
// returned; the two mutexes need the same name, prefix and kind. Of several calls one wins. The
// new lease has a new id, and if the lock is fenced a new token; it keeps its owner, whatever
// ctx and options say.
//
// It returns [ErrAbsent] if the detached lease has run out and nobody holds the lock,
// [ErrTaken] if somebody else does: another caller of Attach, or a new holder. It also returns
// ErrTaken if the lease belongs to the other side of a read-write lock, which the text says.
// Its other errors are those of TryLock.
//
// Where the outcome stays unknown, the id remains good for another Attach within this Mutex's
// TTL: by this client at once, by others as soon as this client has reached the server again;
// until then they get ErrTaken.
func (m *Mutex) Attach(ctx context.Context, id string) (*Lease, error) {
	return m.observed(ctx, "attach", func(ctx context.Context) (*Lease, error) { return m.attach(ctx, id) })
}

func (m *Mutex) attach(ctx context.Context, id string) (*Lease, error) {
	if m.problem == nil && !isID(id) {
		return nil, invalid("this is not an id from Detach")
	}
	a, err := m.begin(ctx, Owner{})
	if err != nil {
		return nil, err
	}
	defer a.end()
	a.attachID = id
	lease, err := a.try(ctx, time.Time{})
	if err != nil {
		return nil, failed(fmt.Sprintf("attach %q", m.name), a.explain(ctx, err))
	}
	return lease, nil
}

func (m *Mutex) lock(ctx context.Context, wait bool) (*Lease, error) {
	if m.problem != nil {
		return nil, m.problem
	}
	owner, err := m.owner(ctx)
	if err != nil {
		return nil, err
	}
	return m.lockAs(ctx, owner, wait)
}

func (m *Mutex) lockAs(ctx context.Context, owner Owner, wait bool) (*Lease, error) {
	if wait {
		if err := m.deadlock(ctx, owner); err != nil {
			return nil, err
		}
		if !m.client.waiterLimit.enter() {
			return m.lockOverLimit(ctx, owner)
		}
		defer m.client.waiterLimit.leave()
	} else if m.linesUp && m.client.lines.waited(m) {
		return nil, m.stoodInLineFor(ctx)
	}
	a, err := m.begin(ctx, owner)
	if err != nil {
		return nil, err
	}
	defer a.end()
	if lease, ok := a.reenter(); ok {
		return lease, nil
	}
	var lease *Lease
	if wait {
		bounded, cancel := m.boundWait(ctx)
		defer cancel()
		ctx = bounded
		lease, err = a.wait(ctx)
	} else {
		lease, err = a.try(ctx, time.Time{})
		err = a.explain(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	if lost := lease.unlessItPanics(func() error { return a.outerLost(ctx, lease, wait) }); lost != nil {
		return nil, lease.discard(ctx, lost)
	}
	return lease, nil
}

// boundWait applies the [WaitTimeout].
func (m *Mutex) boundWait(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.cfg.waitTimeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, m.cfg.waitTimeout, ErrWaitTimeout)
}
