package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/locker"
)

func (k *lockKit) inspect(name string) locker.Status {
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	s, err := k.undisturbed().Inspect(ctx, name)
	if err != nil {
		k.Fatalf("Inspect gave %v", err)
	}
	return s
}

// value returns what stands at a lock's key, "" if nothing does.
func (k *lockKit) value(name string) string {
	v, _ := k.direct("GET", name).(string)
	return v
}

// left returns the TTL of a key, negative if it has none or does not exist.
func (k *lockKit) left(name string) time.Duration {
	ms, _ := k.direct("PTTL", name).(int64)
	return time.Duration(ms) * time.Millisecond
}

// serverLeft returns for how long the server holds a lock for this lease, negative if
// it does not.
func (k *lockKit) serverLeft(l *locker.Lease) time.Duration {
	if l.Owner() == (locker.Owner{}) {
		return k.left(l.Name())
	}
	left := time.Duration(-1)
	for _, h := range k.inspect(l.Name()).Holders {
		if h.Owner == l.Owner().String() && h.Mode == l.Mode() {
			left = max(left, h.Remaining)
		}
	}
	return left
}

// exists tells whether there is a record at a lock's key, of whatever kind.
func (k *lockKit) exists(name string) bool { return k.direct("EXISTS", name) == int64(1) }

// free checks that nobody holds a lock any more. A minority of a quorum may follow later.
func (k *lockKit) free(name, when string) {
	if len(k.server.nodes()) > 1 {
		k.eventually(k.time.settle, func() bool { return !k.exists(name) })
	}
	if k.exists(name) {
		k.Errorf("%s: the lock is still held, by %+v", when, k.inspect(name).Holders)
	}
}

// settled waits until what has come to a majority of a quorum has had time to come to all nodes.
func (k *lockKit) settled() {
	if k.o.quorum > 0 {
		time.Sleep(k.time.short)
	}
}

// soonFree is free where the lock is given up in the background.
func (k *lockKit) soonFree(name, when string) {
	if !k.eventually(k.time.settle, func() bool { return !k.exists(name) }) {
		k.free(name, when)
	}
}

// valid checks that a lease is held, on the server for longer than here.
func (k *lockKit) valid(l *locker.Lease, when string) {
	deadline, left := l.Deadline(), k.serverLeft(l)
	if ours := time.Until(deadline); left < ours {
		k.Errorf("%s: the server holds the lock for %v more, the lease for %v", when, left, ours)
	}
	if err := l.Err(); err != nil {
		k.Errorf("%s: the lease is not held: %v", when, err)
	} else if !l.Valid() || l.Context().Err() != nil {
		k.Errorf("%s: Err gives nil, Valid %t and the Context's error is %v", when, l.Valid(), l.Context().Err())
	}
}

// ended waits for the end of a lease's context and checks its cause. In real time the process
// may stand still for longer than the margin by which the context ends early.
func (k *lockKit) ended(l *locker.Lease, within time.Duration, causes ...error) {
	k.await(l.Context().Done(), within+k.times.late, "the lease's context has not ended")
	for _, want := range causes {
		k.is("the cause of the lease's context", context.Cause(l.Context()), want)
	}
	if l.Valid() {
		k.Errorf("the lease's context has ended and Valid still gives true")
	}
}

// stillHeld checks, at the end of a lease's context, that the server has not let go of the lock
// yet, which it does at until or later. In real time until can be over when this process gets a
// processor again, and then nothing is known.
func (k *lockKit) stillHeld(name string, until time.Time) {
	if k.left(name) <= 0 && (!k.realTime() || time.Now().Before(until)) {
		k.Errorf("the server has let go before the lease's context ended")
	}
}

// isNot checks that err does not match target.
func (k *lockKit) isNot(what string, err, target error) {
	if errors.Is(err, target) {
		k.Errorf("%s gave %v, which matches %q", what, err, target)
	}
}

// An ending notes when the contexts of leases end.
type ending struct {
	k  *lockKit
	at []chan time.Time
}

// watch notes when these leases end.
func (k *lockKit) watch(leases ...*locker.Lease) *ending {
	e := &ending{k: k}
	for _, l := range leases {
		at := make(chan time.Time, 1)
		e.at = append(e.at, at)
		context.AfterFunc(l.Context(), func() { at <- time.Now() })
	}
	return e
}

// before checks that all leases have ended before then.
func (e *ending) before(then time.Time) {
	for _, at := range e.at {
		select {
		case ended := <-at:
			if !ended.Before(then) {
				e.k.Errorf("a lease's context ended %v after the next holder began", ended.Sub(then))
			}
		case <-time.After(e.k.times.prompt):
			e.k.Fatalf("the next holder has begun and the lease's context has not ended")
		}
	}
}
