package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A Lease is one acquisition of a lock. It lives until Unlock, Detach, or loss, whatever
// becomes of the context of the call that took it. Its methods may be called from many
// goroutines. The zero Lease is of no use, nor is a copy, which go vet warns about.
type Lease struct {
	_ noCopy

	tenure *tenure // which it holds, maybe together with others; its mu guards what follows
	mutex  *Mutex
	token  Token

	next        *Lease       // of those that hold the tenure
	observation *observation // for the event of its end; nil if there is to be none
	cause       error        // why the lease is over; nil while it is held
	// passed tells that Unlock has given the lock to the next in line.
	passed   bool
	detached bool // it was the last that held the tenure, and was left on the server
	route    route
	bound    *bound // nil if the lease is as long as the tenure

	ctx    context.Context // made when asked for
	cancel context.CancelCauseFunc
}

// noCopy has go vet report where a Lease is copied: a copy is not told of the loss, and gives
// up nothing.
type noCopy struct{}

var _ sync.Locker = (*noCopy)(nil)

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Name returns the lock's name as it was given to [Client.Mutex].
func (l *Lease) Name() string { return l.mutex.name }

// Token returns the fencing token, 0 if the lock is not [Fenced]. It stays the same for the
// life of the lease. A reader's token is the last writer's, and 0 where none is known: because
// nobody has written for as long as the last token is kept, a day at least, or because the lock
// is on a quorum. A reader that re-enters also has the token of what its owner has written
// itself meanwhile: a [NamedOwner] on any client, an owner that [NewOwner] made on this one.
func (l *Lease) Token() Token { return l.token }

// Mode tells how the lock is held.
func (l *Lease) Mode() Mode { return l.mutex.mode.public() }

// Owner returns the owner that holds the lock by this lease, and so can re-enter it. For a
// plain mutex it is the zero Owner.
func (l *Lease) Owner() Owner { return Owner{name: l.tenure.owner, made: l.tenure.owner != ""} }

// Valid tells whether the lock is certainly held at this moment. It is computed at
// the call, so that it is right even in the first call after a long pause of the
// process or (on Linux) of the machine.
func (l *Lease) Valid() bool { return l.Err() == nil }

// Err returns nil while the lock is certainly held, and otherwise why it is not: an error that
// is [ErrLost] or [ErrReleased].
func (l *Lease) Err() error {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	l.tenure.check(exactNow())
	return l.cause
}

// Deadline returns the time until which the lock is held unless the lease is renewed before,
// which the watchdog does. It is the zero time once the lease is over. Like all times of
// [time.Now] it compares by the monotonic clock, which does not count the time for which the
// machine was suspended: after a suspension (on Linux) the deadline is earlier by as much.
func (l *Lease) Deadline() time.Time {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	if l.tenure.check(exactNow()); l.cause != nil {
		return time.Time{}
	}
	return l.deadline()
}

// deadline is the earliest end: the tenure's, its own, or that of the maximum hold.
// It needs the tenure's mu, as do the methods below.
func (l *Lease) deadline() time.Time {
	end := l.tenure.term.deadline
	if l.bound == nil {
		return end
	}
	if !l.mutex.cfg.renew && l.bound.own.deadline.Before(end) {
		end = l.bound.own.deadline
	}
	if limit := l.bound.limit.deadline; !limit.IsZero() && limit.Before(end) {
		end = limit
	}
	return end
}

// overdue returns the loss if the lease's own time is over, whatever is left of the
// tenure.
func (l *Lease) overdue(now moment) error {
	switch {
	case l.bound == nil:
	case l.bound.maxHoldReached(now):
		return l.tenure.loss(ErrMaxHold)
	case !l.mutex.cfg.renew && l.bound.own.leftAt(now) <= 0:
		return l.tenure.loss(nil)
	}
	return nil
}

// end is called by the tenure.
func (l *Lease) end(cause error) {
	l.cause = cause
	if l.observation != nil {
		l.ended(cause)
	}
	if l.cancel != nil {
		l.cancel(cause)
	}
}

// Context returns a context that ends when the lock is no longer certainly held, and at Unlock.
// It ends before the server can let anybody else in, whatever the network does. context.Cause
// tells why: [ErrLost] or [ErrReleased]. The context is the same at every call. It carries the
// lease, for [FromContext], and no other value, and knows nothing of the end of the caller's
// context; [Lease.Do] joins the two, for work that needs both.
//
// A timer cannot fire while the machine is suspended or the process stopped: right
// after such a pause the context may not have ended yet. After a suspension, which timers
// do not know of, it ends within a second (on Linux; elsewhere as late as the machine was
// suspended). Valid is right at once, where it knows of suspensions.
func (l *Lease) Context() context.Context {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(carry(context.Background(), l))
		if l.tenure.check(now()); l.cause != nil {
			l.cancel(l.cause)
		}
	}
	return l.ctx
}

// Extend lengthens the lease to at least ttl from now, on the server and here, and
// never shortens it. The watchdog goes on as before. The ttl has the limits of [TTL];
// a [MaxHold] stays in force.
//
// It repeats the request until it is answered, ctx ends, or the lease does. Where it fails, the
// lease is, for all that is known, as long as it was before. The error is what [Lease.Err] says
// of a lease that is over, or [ErrNotHeld] if the server says so; [ErrInvalid] for a ttl
// outside the limits; what the server refused the request with, such as [ErrPermission];
// [ErrClosed]; or, where ctx ended, the cause of that, with [ErrUnavailable] if a request was
// not answered. It is also [ErrUnknown] if the server may have lengthened the lease.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	return l.extend(ctx, "extend", ttl)
}

// extend is what a call of that name does.
func (l *Lease) extend(ctx context.Context, op string, ttl time.Duration) error {
	if err := l.checkTTL(op, ttl); err != nil {
		return err
	}
	ttl = ttl.Truncate(time.Millisecond)
	t := l.tenure
	fail := func(reasons ...error) error { return failed(fmt.Sprintf("%s %q", op, l.Name()), reasons...) }
	t.client.join()
	defer t.client.leave()
	t.rest.ask()         // they are to have it for as long as the others
	var last error       // that tells something
	var failures []error // the same, and ErrUnknown from when it applies
	unsure := false
	for {
		if ctx.Err() != nil {
			if err := l.Err(); err != nil {
				return err
			}
			return fail(endedBeside(ctx, failures...)...)
		}
		sent := time.Now()
		over, err := l.lengthen(ctx, ttl)
		switch {
		case over != nil:
			return over
		case err == nil:
			return nil
		case errors.Is(err, ErrNotHeld):
			return fail(err)
		}
		unsure = unsure || driver.OutcomeOf(err) == driver.OutcomeUnknown
		if last == nil || !cutShort(err, time.Since(sent), l.mutex.attempt()) {
			last = requestError(l.Name(), err)
		}
		if failures = []error{last}; unsure {
			failures = []error{outcomeOpen(last), ErrUnknown}
		}
		if !transient(err) {
			return fail(failures...)
		}
		if err := t.client.sleep(ctx, retryPause(l.mutex.ttl)); errors.Is(err, ErrClosed) {
			return fail(append([]error{err}, failures...)...)
		}
	}
}

// checkTTL refuses a ttl that the lease cannot be lengthened to.
func (l *Lease) checkTTL(op string, ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return invalid(fmt.Sprintf("%s with a TTL of %v; use one from %v to %v", op, ttl, MinTTL, MaxTTL))
	}
	if q := l.tenure.client.quorum; q != nil {
		return q.checkTTL(ttl.Truncate(time.Millisecond))
	}
	return nil
}

// lengthen makes the request once. over is why the lease is over, if it is.
func (l *Lease) lengthen(ctx context.Context, ttl time.Duration) (over, err error) {
	t := l.tenure
	if over := t.startExtension(l, ttl); over != nil {
		return over, nil
	}
	defer t.endExtension() // even where the driver panics, and somebody recovers
	sent := now()
	err = t.request(ctx, t.renewCall(ttl), t.mutex.attempt())
	switch {
	case err == nil:
		return l.extended(sent, ttl), nil
	case errors.Is(err, ErrNotHeld):
		t.mu.Lock()
		over = l.cause // it may have been given up since
		t.lose(err)
		t.mu.Unlock()
		t.client.watchdog.remove(&t.job)
	}
	return over, err
}

// startExtension notes a request that is about to lengthen l, or returns why l is over. Whoever
// gives the lock up or passes it on after that knows what the request may arm, and what is
// armed for an earlier holder is not asked of the next.
func (t *tenure) startExtension(l *Lease, ttl time.Duration) (over error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.check(exactNow()); l.cause != nil {
		return l.cause
	}
	t.mayArm(time.Now().Add(t.mutex.attempt()), ttl)
	t.extending++
	return nil
}

func (t *tenure) endExtension() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.catchUp(now()) // while it may have been executed only after a suspension
	t.extending--
	t.landed()
}

func (l *Lease) extended(sent moment, ttl time.Duration) error {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	now := now()
	if t.check(now); l.cause != nil {
		return l.cause
	}
	// The watchdog looks at the time it had planned, and finds the new deadline.
	sent = sent.asOf(now)
	t.armed(now, sent, ttl)
	if !l.mutex.cfg.renew {
		l.bound.own = l.bound.own.later(newTerm(sent, ttl))
	}
	return nil
}
