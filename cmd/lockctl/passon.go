package main

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/locker"
)

// errTwice is the error of a lock that two clients held at the same time.
var errTwice = errors.New("the lock was given to another before it was given up")

// A successor waits for a lock that somebody else holds.
type successor struct {
	name  string
	done  chan struct{} // closed when it has the lock, or will not get it
	lease *locker.Lease
	err   error
	at    time.Time
}

// passOn lets next wait for the lock of a lease and gives the lease up. It returns how long
// the lock was nobody's. In the end nobody holds it, whatever goes wrong.
func passOn(ctx context.Context, lease *locker.Lease, holder *locker.Client, next *locker.Mutex) (time.Duration, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	s := &successor{name: next.Name(), done: make(chan struct{})}
	go s.wait(waiting, next)
	err := s.awaitPlace(ctx, holder)
	released := time.Now()
	if e := lease.Unlock(ctx); err == nil {
		err = e
	}
	if err != nil {
		stop()
	}
	<-s.done
	if err == nil {
		err = s.err
	}
	if s.lease != nil {
		if e := s.lease.Unlock(ctx); err == nil {
			err = e
		}
	}
	return s.at.Sub(released), err
}

func (s *successor) wait(ctx context.Context, m *locker.Mutex) {
	s.lease, s.err = m.Lock(ctx)
	s.at = time.Now()
	close(s.done)
}

// awaitPlace returns when the successor stands in the queue, or why it never will.
func (s *successor) awaitPlace(ctx context.Context, holder *locker.Client) error {
	for {
		status, err := holder.Inspect(ctx, s.name)
		if err != nil || status.Waiters > 0 {
			return err
		}
		select {
		case <-time.After(200 * time.Microsecond):
		case <-s.done:
			if s.err == nil {
				return errTwice
			}
			return s.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
