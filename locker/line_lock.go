package locker

import (
	"context"
	"errors"
	"time"
)

// lockInLine is Lock for a mutex that passes along a [line].
//
// Goroutines wait here in their thousands. The frames from here to the select, and those
// below it, are small enough for the stack that a goroutine begins with.
//
// ctx may be of any type, and panic. So it is asked for its channel before there is a place in
// the line that somebody would have to leave.
func (m *Mutex) lockInLine(ctx context.Context) (*Lease, error) {
	ended, begun := ctx.Done(), time.Now()
	for again := false; ; again = true {
		w, lease, err := m.standInLine(ctx, begun, again)
		if w == nil {
			return lease, err
		}
		select {
		case <-w.called:
		case <-ended:
			w.leave()
		}
		if lease, err := m.calledFrom(ctx, w); lease != nil || err != nil {
			return lease, err
		}
	}
}

// lockInLineWithin is lockInLine within the [WaitTimeout].
func (m *Mutex) lockInLineWithin(ctx context.Context) (*Lease, error) {
	ctx, cancel := m.boundWait(ctx)
	defer cancel()
	return m.lockInLine(ctx)
}

// standInLine gives the caller its place in the line, for [Mutex.calledFrom], or makes it
// lead. again tells that calledFrom has sent it back.
func (m *Mutex) standInLine(ctx context.Context, begun time.Time, again bool) (*waiter, *Lease, error) {
	if !again {
		if err := m.deadlock(ctx, Owner{}); err != nil {
			return nil, nil, err
		}
		if !m.client.waiterLimit.enter() {
			lease, err := m.lockOverLimit(ctx, Owner{})
			return nil, lease, err
		}
	}
	ln, w, err := m.client.lines.join(m, begun)
	if w != nil {
		return w, nil, nil
	}
	defer m.client.waiterLimit.leave()
	if err != nil {
		return nil, nil, err
	}
	lease, err := m.lead(ctx, ln, begun, again)
	return nil, lease, err
}

// calledFrom goes on with what w was called for, or says why it has left the line. It returns
// nothing if the caller has to stand in line again, still counted.
func (m *Mutex) calledFrom(ctx context.Context, w *waiter) (lease *Lease, err error) {
	again := false // else it leaves, even where the driver or ctx panics
	defer func() {
		if !again {
			m.client.waiterLimit.leave()
		}
	}()
	ln, begun := w.line, w.begun
	lease, err = w.lease, w.err
	if w.left || err == ErrClosed {
		err = waitError(ctx, m.name, w.why(ctx), begun)
	}
	w.recycle()
	switch {
	case err != nil:
		return nil, err
	case lease == nil:
		return m.lead(ctx, ln, begun, true)
	case lease.token != 0 || !m.cfg.fenced:
		return lease, nil
	}
	lease, err = m.calledWithoutToken(ctx, lease, begun)
	again = lease == nil && err == nil
	return lease, err
}

// calledWithoutToken waits for the token of a lease that has been passed on. Close waits for
// it, or has the lease in its own care. There is nothing to return if the lease is lost before
// it could be used.
func (m *Mutex) calledWithoutToken(ctx context.Context, lease *Lease, begun time.Time) (*Lease, error) {
	if m.client.enter() != nil {
		return nil, waitError(ctx, m.name, nil, begun)
	}
	defer m.client.leave()
	taken := false // else it goes back, even where ctx panics
	defer func() {
		if !taken {
			lease.giveBack()
		}
	}()
	err := lease.awaitToken(ctx)
	switch {
	case err == nil:
		taken = true
		return lease, nil
	case ctx.Err() != nil, errors.Is(err, ErrClosed):
		return nil, waitError(ctx, m.name, lease.whyWithoutToken(ctx, begun), begun)
	case errors.Is(err, ErrLost):
		return nil, nil
	}
	return nil, err
}

// whyWithoutToken says why the caller, who wanted the lock since begun, gave up waiting for it.
func (l *Lease) whyWithoutToken(ctx context.Context, begun time.Time) error {
	t := l.tenure
	t.mu.Lock()
	heard := t.heardSince(begun)
	t.mu.Unlock()
	if heard {
		return t.lockedSince(begun)
	}
	return unanswered(ctx, begun)
}

// giveBack is Unlock in the background, of a lease that nobody has had.
func (l *Lease) giveBack() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.Unlock(ctx)
}

// lead asks the server for all who stand in line, with the attempt that an earlier leader
// has left, so that its place in the queue is kept. met tells that the caller has stood in line
// before.
func (m *Mutex) lead(ctx context.Context, ln *line, begun time.Time, met bool) (lease *Lease, err error) {
	a, behind, inTheWay := ln.lead()
	forAll := false // err would meet everybody in the line
	defer func() {  // even where the driver or ctx panics: the next one leads then
		switch {
		case lease != nil:
		case forAll:
			ln.fail(err)
		case ln.resign(a):
			return // the attempt goes on
		}
		if a != nil {
			a.end()
		}
	}()
	if a == nil {
		var reason error
		if inTheWay != nil {
			reason = inTheWay.lockedSince(begun)
		}
		if a, err = m.begin(ctx, Owner{}); err == nil {
			a.line, a.reason = ln, reason
			if behind {
				a.listen(ctx) // so that the first request is one for a place in the queue
			}
		} else if ctx.Err() != nil {
			err = waitError(ctx, m.name, reason, begun)
		}
	}
	if err == nil {
		a.mutex, a.begun, a.met = m, begun, a.met || met
		if a.slot != nil {
			a.client.hub.transfer(a.slot, m, begun)
		}
		lease, err = a.wait(ctx)
	}
	forAll = err != nil && ctx.Err() == nil
	return lease, err
}

// stoodInLineFor says who holds the lock while goroutines of this client wait for it: they
// come before a TryLock.
func (m *Mutex) stoodInLineFor(ctx context.Context) error {
	begun := time.Now()
	status, err := m.client.Inspect(ctx, m.name)
	switch {
	case err != nil && ctx.Err() != nil:
		return waitError(ctx, m.name, unanswered(ctx, begun), begun)
	case err != nil:
		return err
	case status.Held():
		return &LockedError{Name: m.name, Holder: status.Holders[0]}
	}
	return &LockedError{Name: m.name, Holder: Holder{Mode: m.mode.public(), Label: m.client.cfg.label, Metadata: m.cfg.metadata}}
}
