package worker

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/resource"
	"github.com/golocker/golocker/locker"
)

const (
	// lookInterval is how often a holder makes sure that it still is one.
	lookInterval = 20 * time.Millisecond
	// unlockPatience bounds an Unlock, so that a hand goes on when the server is gone.
	unlockPatience = time.Second
)

// A hold is a lease and what is written down about it.
type hold struct {
	hand  *hand
	lease *locker.Lease
	event history.Event // what all events of the operation have in common
}

// note writes an event of the hold.
func (o *hold) note(what history.What, fill func(*history.Event)) {
	e := o.event
	e.What, e.At = what, history.Now()
	if fill != nil {
		fill(&e)
	}
	o.hand.record(e)
}

// watch writes down when the lease ends by itself.
func (o *hold) watch() {
	o.hand.besides.Add(1)
	context.AfterFunc(o.lease.Context(), func() {
		defer o.hand.besides.Done()
		cause := context.Cause(o.lease.Context())
		if errors.Is(cause, locker.ErrReleased) {
			return
		}
		o.note(history.Ended, func(e *history.Event) { e.Error, e.Class = cause.Error(), classify(cause) })
	})
}

// look makes sure that the lease is valid, and writes down that it was used.
func (o *hold) look() bool {
	since := history.Now()
	if !o.lease.Valid() || o.lease.Context().Err() != nil {
		return false
	}
	o.note(history.Used, func(e *history.Event) { e.Since, e.Deadline = since, deadline(o.lease) })
	return true
}

// use is what a holder does: it writes to the resource that the lock guards, at once and
// after it has held the lock for d, if it could.
func (o *hold) use(ctx context.Context, d time.Duration) {
	o.write()
	for left := d; left > 0; left -= lookInterval {
		select {
		case <-time.After(min(left, lookInterval)):
		case <-o.lease.Context().Done():
		case <-ctx.Done():
			left = 0
		}
		if !o.look() {
			break
		}
	}
	if d > 0 {
		// Also if the lease is lost, as by somebody who has not noticed. The resource has
		// seen a larger token, or nobody has written since.
		o.write()
	}
	o.look()
}

// write writes to the resource, between two looks at the lease: while both succeed it
// must not be refused.
func (o *hold) write() {
	if o.event.Token == 0 || o.event.Mode == history.Read {
		o.look()
		return
	}
	o.look()
	since := history.Now()
	accepted, err := o.hand.resource.Write(resource.Write{Name: o.event.Name, Token: o.event.Token})
	if err != nil {
		return // the round is over
	}
	o.note(history.Wrote, func(e *history.Event) { e.Since, e.Accepted = since, accepted })
}

// extend lengthens the lease.
func (o *hold) extend(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	// An error is no news: the lease is as it was, or over, which look finds.
	_ = o.lease.Extend(ctx, d)
}

// abandon holds on to a lease that is not renewed until it ends.
func (o *hold) abandon() {
	for o.look() {
		sleep(o.lease.Context(), lookInterval)
	}
}

// finish goes on to read where that is planned, and then leaves the lock to others or gives
// it up.
func (o *hold) finish(ctx context.Context, p plan, leave bool) {
	if p.downgrade && o.event.Mode == history.Write {
		if reading := o.downgrade(ctx); reading != nil {
			reading.use(ctx, p.hold/2)
			o = reading
		}
	}
	if !leave || !o.leave(ctx, p) {
		o.unlock()
	}
}

// downgrade goes on to read. It returns nil if the lease is as it was, or lost.
func (o *hold) downgrade(ctx context.Context) *hold {
	ctx, cancel := context.WithTimeout(ctx, unlockPatience)
	defer cancel()
	e := history.Event{
		Name: o.event.Name, Mode: history.Read, Owner: o.event.Owner, Try: true, TTL: o.event.TTL, From: o.operation(),
	}
	reading := o.hand.take(e, func() (*locker.Lease, error) { return o.lease.Downgrade(ctx) })
	if reading != nil {
		// Nobody is told whether the server has confirmed the release.
		o.note(history.Unlocked, func(e *history.Event) { e.Class = history.Unknown })
	}
	return reading
}

// leave detaches the lease for another worker to take up. It returns false if it could
// not; then the lease is as it was, or lost.
func (o *hold) leave(ctx context.Context, p plan) bool {
	ctx, cancel := context.WithTimeout(ctx, unlockPatience)
	defer cancel()
	o.note(history.Detaching, func(e *history.Event) { e.TTL = history.Time(p.kept) })
	id, err := o.lease.Detach(ctx, p.kept)
	o.note(history.Detached, func(e *history.Event) {
		if e.TTL = history.Time(p.kept); err != nil {
			e.Error, e.Class = err.Error(), classify(err)
		}
	})
	if err == nil && !p.lost {
		o.hand.post(parcel{ID: id, Lock: p.lock, Mode: o.event.Mode, Owner: o.event.Owner, From: o.operation()})
	}
	return err == nil
}

func (o *hold) operation() history.Operation {
	return history.Operation{Worker: o.event.Worker, Op: o.event.Op}
}

// unlock gives the lock up.
func (o *hold) unlock() {
	o.note(history.Unlocking, nil)
	ctx, cancel := context.WithTimeout(context.Background(), unlockPatience)
	defer cancel()
	err := o.lease.Unlock(ctx)
	o.note(history.Unlocked, func(e *history.Event) {
		if err != nil {
			e.Error, e.Class = err.Error(), classify(err)
		}
	})
}

// deadline returns until when a lease is valid unless it is renewed, 0 if it is over.
func deadline(l *locker.Lease) history.Time {
	d := l.Deadline()
	if d.IsZero() {
		return 0
	}
	return history.Of(d)
}
