package locker

import (
	"context"
	"errors"
	"time"
)

// An Observer is told what becomes of the locks of a client: how long they are waited
// for and held, whether they are contended, how renewals go, and what is lost. It is
// given to a client by [Observe]. Fields that are nil are not called; later versions
// may have more of them, and events more fields.
//
// LockStart, LockEnd, and HoldEnd after an Unlock are called by the goroutine that calls Lock
// or Unlock, and take part of its time. All others, a loss among them, are called one after
// another by a goroutine of the client. None is called while the client holds a mutex of its
// own, so that an observer may use the client, though not close it. None may block for long:
// while one does, up to 1024 renewals wait, and further ones are left out; nothing else is.
// [Client.Close] waits up to 5 seconds for the last event.
//
// A panic of an observer is not recovered. One in LockEnd gives the lease back first.
//
// Package lockotel turns the events into traces and metrics for OpenTelemetry, package lockprom
// into metrics for Prometheus.
type Observer struct {
	// LockStart is called before a lock is asked for. What is done for the call has the context
	// that LockStart returns, which must be derived from ctx; a nil context counts as ctx.
	LockStart func(ctx context.Context, e LockStart) context.Context
	// LockEnd is called when the lock was acquired or not, also where the call panics. It has
	// the context of LockStart: with several observers, that of the last, to which each has
	// added its own. An observer keeps what it wants to find again there under a key of its
	// own.
	LockEnd func(ctx context.Context, e LockEnd)
	// HoldEnd is called once for every lease that LockEnd has told of, when the lease is over.
	// It has the context of LockStart, which may have ended.
	HoldEnd func(ctx context.Context, e HoldEnd)
	// Renewal is called when a renewal was answered, or was not answered in time.
	Renewal func(e Renewal)
	// Healed is called when the client has given a lock's record back the TTL that
	// somebody had taken from it.
	Healed func(e Healed)
	// Subscription is called when messages begin to arrive and when they cease.
	Subscription func(e Subscription)
	// Warning is called soon after the first contact with a server that is set up
	// so that locks are in danger.
	Warning func(e Warning)
}

// Observe has o told of all locks of the client. Given several times, all observers
// are told, in the order in which they were given. By default nobody is, and nothing is
// spent on it.
//
// With an observer, or a [Logger], the client looks at the server's INFO once, in the
// background, to be able to give warnings.
func Observe(o Observer) ClientOption {
	return clientOption(func(c *clientConfig) { c.observers = append(c.observers[:len(c.observers):len(c.observers)], o) })
}

// A LockInfo says which lock an event is about.
type LockInfo struct {
	Name   string // as given to Mutex
	Mode   Mode
	Fenced bool
	TTL    time.Duration
}

// A LockStart is the beginning of a call that takes a lock.
type LockStart struct {
	LockInfo
	// Op is the call: "lock" (also for Do), "try", "attach", "upgrade" (also TryUpgrade)
	// or "downgrade".
	Op string
}

// A LockEnd is the end of a call that takes a lock.
type LockEnd struct {
	LockInfo
	Op    string        // as in LockStart
	Wait  time.Duration // how long the call has taken
	Route Route         // how the lock was acquired; "" if it was not
	// Left is the time until the deadline of the lease, 0 if there is no lease.
	Left time.Duration
	Err  error
}

// A Route is how a lock was acquired.
type Route string

// The routes of a lease.
const (
	// Direct: nobody was in the way.
	Direct Route = "direct"
	// Queued: somebody was in the way. The lock was granted when it was released, or
	// acquired by asking again.
	Queued Route = "queued"
	// HandedOn: a goroutine of the same client has passed the lock on, without a request.
	HandedOn Route = "handed_on"
	// Reentered: the owner had the lock on this client already.
	Reentered Route = "reentered"
)

// Contended tells whether somebody else had the lock when it was asked for.
func (e LockEnd) Contended() bool {
	return e.Route == Queued || e.Route == HandedOn || errors.Is(e.Err, ErrLocked)
}

// Outcome sums the call up in a word, for use as a label: "acquired", or else why it
// failed, the first that applies of
//
//   - "closed", "invalid", "deadlock", "foreign": the error of that name;
//   - "crowded": as ErrTooManyWaiters;
//   - "canceled": the context has ended otherwise than by its deadline;
//   - "absent": there was no lease to attach to, or the lease to be changed or re-entered was
//     lost;
//   - "unavailable": as ErrUnavailable, also where the call has ended by its deadline;
//   - "timeout": the WaitTimeout or the context's deadline has passed, and for all that is
//     known others held the lock;
//   - "locked": as ErrLocked;
//   - "error": anything else, a server's refusal for instance.
func (e LockEnd) Outcome() string {
	if e.Err == nil {
		return "acquired"
	}
	for _, o := range outcomes {
		if errors.Is(e.Err, o.err) {
			return o.name
		}
	}
	if _, ok := errors.AsType[*WaitError](e.Err); ok {
		return "canceled" // by a cause of its own
	}
	return "error"
}

var outcomes = []struct {
	err  error
	name string
}{
	{ErrClosed, "closed"}, {ErrInvalid, "invalid"}, {ErrDeadlock, "deadlock"}, {ErrForeign, "foreign"},
	{ErrTooManyWaiters, "crowded"},
	{context.Canceled, "canceled"}, // no word about the server, even where that was away
	{ErrLost, "absent"}, {ErrReleased, "absent"}, {ErrNotHeld, "absent"},
	{ErrUnavailable, "unavailable"}, // before what an outage makes of most calls
	{ErrWaitTimeout, "timeout"}, {context.DeadlineExceeded, "timeout"},
	{ErrLocked, "locked"},
}

// A HoldEnd is the end of a lease.
type HoldEnd struct {
	LockInfo
	Token Token         // 0 if the lock is not fenced
	Held  time.Duration // from the end of the call that took it
	// Left is how much of the lease was left: how far the holder was from its deadline. It is 0
	// or a little less where the deadline was the end.
	Left time.Duration
	// Lost is why the lock was lost; nil if the holder gave it up.
	Lost *LostError
	// Release is how long Unlock or Detach took after that.
	Release time.Duration
	// Err is what Unlock has returned.
	Err      error
	Detached bool // the lease was left on the server for another process
	HandedOn bool // the lock went to a goroutine of the same client, without a request
}

// Outcome sums the end up in a word, for use as a label:
//
//   - "released", "handed_on", "detached": the holder has given the lock up;
//   - "unconfirmed": the server has not confirmed that;
//   - "expired": the server said that the lock had not been held any more;
//   - "lost_deadline", "lost_taken", "lost_absent": it was lost, because the deadline passed
//     without a renewal, or the server said that it was somebody else's, or gone;
//   - "max_hold": the maximum hold was reached;
//   - "closed": the client was closed.
func (e HoldEnd) Outcome() string {
	switch {
	case e.Lost != nil:
		return e.Lost.cause()
	case e.Detached:
		return "detached"
	case e.HandedOn:
		return "handed_on"
	case errors.Is(e.Err, ErrNotHeld):
		return "expired"
	case e.Err != nil:
		return "unconfirmed"
	}
	return "released"
}

func (e *LostError) cause() string {
	switch {
	case e.Reason == nil:
		return "lost_deadline"
	case errors.Is(e.Reason, ErrTaken):
		return "lost_taken"
	case errors.Is(e.Reason, ErrMaxHold):
		return "max_hold"
	case errors.Is(e.Reason, ErrClosed):
		return "closed"
	}
	return "lost_absent"
}

// A Renewal is one request of the watchdog that lengthens a lease. Its TTL is the one that the
// lease had until then. After a wait that is less than the TTL of the lock: a waiter is given
// the lock for as long as its place in the queue lasts, some four seconds, and the first
// renewal lengthens that.
type Renewal struct {
	LockInfo
	Took time.Duration // from the request to its answer
	// Late is by how much the request was made later than a third of the TTL after the last one
	// that succeeded: 0 where all goes well, more with each one that fails.
	Late time.Duration
	// Left is how much of the lease was left when the answer came. Where it falls to
	// 0, the lock is lost.
	Left time.Duration
	// Err is nil if the lease is longer now, [ErrNotHeld] if the lock is lost, and otherwise
	// why there was no answer; then the renewal is tried again.
	Err error
}

// A Healed is a record that had lost its TTL, by PERSIST for instance.
type Healed struct {
	Name string        // as given to Mutex
	For  time.Duration // the TTL that it has now
}

// A Subscription is a change of the connection on which the client hears that locks have become
// free. While there is no such connection, waiters poll.
type Subscription struct {
	Node      int   // of a quorum, from 0
	Listening bool  // messages arrive from here on
	Gap       bool  // messages may have been missed, so that all waiters ask
	Err       error // why messages have ceased, or may have been missed; nil if that is not known
}

// A Warning tells of a danger to locks in how a server is set up.
type Warning struct {
	Node int // of a quorum, from 0
	// Kind is "eviction", "replica" or "persistence".
	Kind string
	// Text says what the danger is and what to do, for an operator to read.
	Text string
}
