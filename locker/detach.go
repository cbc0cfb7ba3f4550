package locker

import (
	"context"
	"fmt"
	"time"
)

// Detach leaves the lock on the server for another process to take up with [Mutex.Attach], and
// returns the id for that. Once Detach has returned, this lease is no longer held, and its
// context has ended with [ErrReleased]. The server keeps the lock for at least ttl (which has
// the limits of [TTL]), within which it must be taken up.
//
// Where the owner has re-entered the lock, this lease alone is detached: the owner keeps its
// other leases, and the server keeps a hold for each side.
//
// Anybody who knows the id can take the lock up; treat it as a secret of the lock's users.
// After an error the lease is still held here, unless the error says otherwise. The errors are
// those of [Lease.Extend]; where the owner has re-entered, also those of [Mutex.TryLock].
func (l *Lease) Detach(ctx context.Context, ttl time.Duration) (id string, err error) {
	if !l.shared() {
		if err := l.outlast(ctx, ttl); err != nil {
			return "", err
		}
		if id, ok, err := l.detach(); ok || err != nil {
			if ok { // else whatever has ended the lease tells
				l.tellEnd(givenUp{detached: true})
			}
			return id, err
		}
		// It has been re-entered meanwhile.
	}
	own, err := l.apart(ctx)
	if err != nil {
		return "", err
	}
	err = own.unlessItPanics(func() (err error) {
		if err = own.outlast(ctx, ttl); err == nil {
			id, err = l.leave(own)
		}
		return err
	})
	if err != nil {
		return "", own.discard(ctx, err)
	}
	_, _, _ = l.unlock(ctx) // sends nothing unless it has become the last one
	l.tellEnd(givenUp{detached: true})
	return id, nil
}

// outlast lengthens the lease for whoever is to take it up.
func (l *Lease) outlast(ctx context.Context, ttl time.Duration) error {
	if err := l.checkTTL("detach", ttl); err != nil {
		return err
	}
	l.tenure.rest.awaitAnswers(ctx, l.Deadline())
	return l.extend(ctx, "detach", ttl)
}

// leave detaches own, which is apart, and thereby ends the holding of l, unless Unlock or another
// Detach has ended it already. Whoever has the mutex of own's tenure waits for that of no other
// tenure.
func (l *Lease) leave(own *Lease) (id string, err error) {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.check(now()); l.cause != nil {
		return "", l.cause
	}
	if id, _, err = own.detach(); err == nil {
		t.letGo(l)
	}
	return id, err
}

// apart makes a further hold for the owner of l, which nobody else shares.
func (l *Lease) apart(ctx context.Context) (*Lease, error) {
	if err := l.Err(); err != nil {
		return nil, err
	}
	a, err := l.mutex.begin(ctx, l.Owner())
	if err != nil {
		return nil, err
	}
	defer a.end()
	a.apart, a.outer, a.told = true, l.tenure, true
	lease, err := a.try(ctx, time.Time{})
	if err != nil {
		if answered(err) { // the server does not know of the hold that this was to be beside
			_ = l.confirm(ctx, "detach", false)
		}
		if lost := l.Err(); lost != nil {
			return nil, lost
		}
		return nil, failed(fmt.Sprintf("detach %q", l.Name()), a.explain(ctx, err))
	}
	if err := lease.unlessItPanics(func() error { return l.confirm(ctx, "detach", true) }); err != nil {
		// Others may have had the lock before the request took it anew.
		_ = lease.discard(ctx, err)
		return nil, err
	}
	return lease, nil
}

// shared tells whether other leases hold the tenure, too.
func (l *Lease) shared() bool {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	return l.tenure.held != nil && l.tenure.held.next != nil
}

// detach ends the tenure and leaves it on the server. ok is false if others hold it.
func (l *Lease) detach() (id string, ok bool, err error) {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	now := now()
	if t.check(now); l.cause != nil {
		return "", false, l.cause
	}
	if t.held.next != nil {
		return "", false, nil
	}
	t.letGo(l)
	t.rest.leave()
	t.released, t.outcome, l.detached = true, ErrReleased, true
	t.client.watchdog.remove(&t.job)
	t.vacate()
	// A request that takes the lock may arrive even after the detached lease has run out and
	// others have had the lock.
	if t.client.quorum == nil && (t.mayArrive() || t.remember > t.term.leftAt(now)) {
		t.cleanUp(t.voidCall(t.remember), time.Now().Add(t.remember), false)
	}
	return t.id, true, nil
}

// voidCall tells a server that no request under the id of t takes the lock any more, though the lease goes on: it is
// detached. See remember in base.lua.
func (t *tenure) voidCall(life time.Duration) call {
	return native("SET", t.mutex.keys.over(t.id), "2", "NX", "PX", millis(life))
}
