package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A Lease is one acquisition of a lock. It lives until Unlock, Detach, or loss,
// whatever becomes of the context of the call that took it. Its methods may be called
// from many goroutines.
type Lease struct {
	client *Client
	mutex  *Mutex
	id     string
	token  Token
	late   bool // a request that takes the lock may still be on its way
	job    job

	mu    sync.Mutex
	state leaseState
	cause error // why the lease is over; nil while it is held
	term  term
	ttl   time.Duration // what the next renewal asks for
	// limit is when the maximum hold is reached; zero if there is none.
	limit time.Time
	// lapse is when the server has certainly let go, if no request is in flight.
	lapse   time.Time
	renewAt time.Time // zero while a renewal is asked for
	lastErr error     // of the last renewal, if it failed

	renewal chan struct{} // closed when the renewal in flight ends; nil if none is

	ctx    context.Context // made when asked for
	cancel context.CancelCauseFunc

	releasing chan struct{} // closed when the Unlock in progress ends; nil if none is
	outcome   error         // of the release, once done
	unsure    bool          // a release was sent and not answered
}

type leaseState int

const (
	leaseHeld     leaseState = iota
	leaseLost                // not believed in any more; the server may still have it
	leaseReleased            // outcome is known
	leaseDetached
)

func newLease(m *Mutex, id string, token Token, sent moment, late bool) *Lease {
	l := &Lease{client: m.client, mutex: m, id: id, token: token, late: late, ttl: m.cfg.ttl}
	l.job.task = l
	if m.cfg.maxHold > 0 {
		l.limit = sent.at.Add(m.cfg.maxHold)
	}
	l.armed(sent, l.ttl)
	l.renewAt = renewalTime(sent.at, l.ttl)
	return l
}

// renewalTime is a third of the TTL after the request that armed it, spread over
// the last tenth of that, so that leases taken together are not renewed together.
func renewalTime(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(time.Duration(float64(ttl) / 3 * (1 - rand.Float64()/10)))
}

// Name returns the lock's name as it was given to [Client.Mutex].
func (l *Lease) Name() string { return l.mutex.name }

// Token returns the fencing token, 0 if the lock is not [Fenced]. It stays the same
// for the life of the lease.
func (l *Lease) Token() Token { return l.token }

// Valid tells whether the lock is certainly held at this moment. It is computed at
// the call, so that it is right even in the first call after a long pause of the
// process or (on Linux) of the machine.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check(suspended.now()) == nil
}

// Err returns nil while the lock is certainly held, and else why it is not: an
// error that is [ErrLost] or [ErrReleased].
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check(suspended.now())
}

// check ends a lease whose time is over. It needs l.mu.
func (l *Lease) check(asleep time.Duration) error {
	if l.state != leaseHeld {
		return l.cause
	}
	if !l.limit.IsZero() && !time.Now().Before(l.limit) {
		l.lose(ErrMaxHold)
	} else if l.term.left(asleep) <= 0 {
		l.lose(nil)
	}
	return l.cause
}

// Deadline returns until when the lock is held unless it is renewed before, which
// the watchdog does. It is the zero time once the lease is over. Like all times of
// [time.Now] it compares by the monotonic clock.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check(suspended.now()) != nil {
		return time.Time{}
	}
	return l.deadline()
}

func (l *Lease) deadline() time.Time {
	if !l.limit.IsZero() && l.limit.Before(l.term.deadline) {
		return l.limit
	}
	return l.term.deadline
}

// Context returns a context that ends when the lock is no longer certainly held,
// and at Unlock. It ends before the server can let anybody else in, whatever the
// network does. context.Cause tells why: [ErrLost] or [ErrReleased]. The context is
// the same at every call. It carries the lease, for [FromContext], and no other
// value; [Client.Do] joins it to the caller's.
//
// A timer cannot fire while the machine is suspended or the process stopped: right
// after such a pause the context may not have ended yet. Valid is right then too.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(carry(context.Background(), l))
		if err := l.check(suspended.recent()); err != nil {
			l.cancel(err)
		}
	}
	return l.ctx
}

// end makes the lease one that is not held. It needs l.mu.
func (l *Lease) end(state leaseState, cause error) {
	l.state, l.cause = state, cause
	if l.cancel != nil {
		l.cancel(cause)
	}
}

// lose needs l.mu.
func (l *Lease) lose(reason error) {
	if l.state == leaseHeld {
		l.end(leaseLost, &LostError{Name: l.Name(), Reason: reason, LastErr: l.lastErr})
	}
}

// armed moves the deadline after a request that armed ttl was answered. It never
// moves back. It needs l.mu.
func (l *Lease) armed(sent moment, ttl time.Duration) {
	if t := newTerm(sent, ttl); t.left(sent.asleep) > l.term.left(sent.asleep) {
		l.term = t
	}
	l.mayArm(0, ttl)
	l.lastErr = nil
}

// mayArm notes that a request may arm ttl on the server within the given time. It
// needs l.mu.
func (l *Lease) mayArm(within, ttl time.Duration) {
	if lapse := time.Now().Add(within + ttl); lapse.After(l.lapse) {
		l.lapse = lapse
	}
}

// due implements task: the time of a renewal, or of the end, has come.
func (l *Lease) due(now time.Time) (need, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check(suspended.recent()) != nil {
		return need{}, time.Time{}
	}
	var renewal need
	if l.mutex.cfg.renew && !l.renewAt.IsZero() && !now.Before(l.renewAt) {
		l.renewAt = time.Time{}
		// Half of what is left, so that a reply that is lost can be made up for.
		patience := min(l.mutex.attempt, l.deadline().Sub(now)/2)
		renewal = need{max(patience, 20*time.Millisecond), l.lastErr != nil, l.client.link.shard(l.mutex.keys.record)}
	}
	return renewal, l.next()
}

// next is when the watchdog has to look at the lease again. It needs l.mu.
func (l *Lease) next() time.Time {
	at := l.deadline()
	if l.mutex.cfg.renew && !l.renewAt.IsZero() && l.renewAt.Before(at) {
		at = l.renewAt
	}
	return at
}

// begin implements task.
func (l *Lease) begin(_ time.Time, patience time.Duration) (call, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check(suspended.recent()) != nil {
		return call{}, false
	}
	l.renewal = make(chan struct{})
	l.mayArm(patience, l.ttl)
	return renewCall(&l.mutex.keys, l.id, l.ttl, l.token != 0), true
}

// reply implements task. An error is no loss: the renewal is tried again until the
// deadline.
func (l *Lease) reply(sent moment, v driver.Value, err error) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.renewal)
	l.renewal = nil
	if err == nil {
		err = heldReply(v)
	}
	switch {
	case l.state != leaseHeld:
		return time.Time{}
	case err == nil:
		l.armed(sent, l.ttl)
		l.renewAt = renewalTime(sent.at, l.ttl)
	case errors.Is(err, ErrNotHeld):
		l.lose(err)
		return time.Time{}
	default:
		l.lastErr = err
		l.renewAt = time.Now().Add(retryPause(l.ttl))
	}
	if l.check(suspended.recent()) != nil {
		return time.Time{}
	}
	return l.next()
}

// retryPause is how long a failed renewal waits for the next try.
func retryPause(ttl time.Duration) time.Duration {
	pause := min(ttl/20, time.Second)
	return pause/2 + rand.N(pause/2)
}

// Extend lengthens the lease to at least ttl from now, on the server and here, and
// never shortens it. The watchdog goes on as before. The ttl has the limits of [TTL];
// a [MaxHold] stays in force.
//
// It repeats the request until it is answered, ctx ends, or the lease does. Where
// it fails, the lease is as long as it was before for all that is known; the error
// is [ErrNotHeld] or [ErrLost] if it is over, and [ErrUnknown] if the server may have
// lengthened it.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return invalid(fmt.Sprintf("Extend by %v; use a TTL from %v to %v", ttl, MinTTL, MaxTTL))
	}
	ttl = ttl.Truncate(time.Millisecond)
	l.client.join()
	defer l.client.leave()
	var failures []error // the last one, and ErrUnknown from when it applies
	unsure := false
	for {
		if err := l.Err(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("locker: extend %q: %w", l.Name(), errors.Join(append([]error{context.Cause(ctx)}, failures...)...))
		}
		l.mu.Lock()
		l.mayArm(l.mutex.attempt, ttl)
		l.mu.Unlock()
		sent := now()
		err := l.request(ctx, renewCall(&l.mutex.keys, l.id, ttl, l.token != 0), l.mutex.attempt)
		switch {
		case err == nil:
			return l.extended(sent, ttl)
		case errors.Is(err, ErrNotHeld):
			l.mu.Lock()
			l.lose(err)
			l.mu.Unlock()
			l.client.dog.remove(&l.job)
			return err
		case !transient(err):
			return fmt.Errorf("locker: extend %q: %w", l.Name(), requestError(err))
		}
		unsure = unsure || driver.OutcomeOf(err) == driver.OutcomeUnknown
		if failures = []error{requestError(err)}; unsure {
			failures = append(failures, ErrUnknown)
		}
		if err := l.client.sleep(ctx, retryPause(l.mutex.cfg.ttl)); errors.Is(err, ErrClosed) {
			return err
		}
	}
}

func (l *Lease) extended(sent moment, ttl time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(suspended.recent()); err != nil {
		return err
	}
	// The watchdog looks at the time it had planned, and finds the new deadline.
	l.armed(sent, ttl)
	return nil
}

// request makes one request about this lease, within the given time.
func (l *Lease) request(ctx context.Context, c call, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, min(l.mutex.attempt, within))
	defer cancel()
	v, err := l.client.link.run(ctx, c)
	if err != nil {
		return err
	}
	return heldReply(v)
}

// Detach leaves the lock on the server for another process to take up with
// [Mutex.Attach], and returns the id to do so. From its return on this lease is not held
// any more; its context has ended with [ErrReleased]. The server keeps the lock for
// at least ttl (limits as for [TTL]), within which it must be taken up.
//
// Who knows the id can take the lock up; treat it as a secret of the lock's users.
// After an error the lease is still held here, unless the error says otherwise.
func (l *Lease) Detach(ctx context.Context, ttl time.Duration) (id string, err error) {
	if err := l.Extend(ctx, ttl); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(suspended.recent()); err != nil {
		return "", err
	}
	l.end(leaseDetached, ErrReleased)
	l.client.dog.remove(&l.job)
	return l.id, nil
}
