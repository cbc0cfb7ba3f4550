package pubsub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// run connects, serves the connection until it fails, pauses, and starts over,
// as long as a connection is needed, until Close.
func (s *Subscription) run() {
	defer close(s.ended)
	failures, resume := 0, time.Now()
	for s.awaitNeed() && s.sleepUntil(resume) {
		start := time.Now()
		conn, err := s.connect()
		if err == nil {
			err = s.serve(conn)
			if time.Since(start) >= MaxPause {
				failures = 0
			}
		}
		s.disconnected(err)
		failures++
		resume = time.Now().Add(pause(failures))
	}
}

// pause returns how long to wait before the attempt after n failures in a row:
// exponential, with full jitter.
func pause(n int) time.Duration {
	limit := MinPause
	for range n - 1 {
		if limit *= 2; limit >= MaxPause {
			limit = MaxPause
			break
		}
	}
	return rand.N(limit)
}

// awaitNeed waits until a connection is needed. It returns false after Close.
func (s *Subscription) awaitNeed() bool {
	for {
		s.mu.Lock()
		need := len(s.queue) > 0 || s.gapDue // gapDue is true if there are channels
		s.mu.Unlock()
		if s.ctx.Err() != nil {
			return false
		}
		if need {
			return true
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
		}
	}
}

// sleepUntil returns false if Close came first.
func (s *Subscription) sleepUntil(t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		// There must be no timer that has expired from the start: with the race detector Go 1.26
		// runs those of a synctest bubble on several threads in one context, and may crash.
		return s.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

func (s *Subscription) connect() (Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, DialTimeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("pubsub: connecting: %w", err)
	}
	return conn, nil
}

// disconnected notes that the connection failed, or could not be made, and
// decides what becomes of the requests on it.
func (s *Subscription) disconnected(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.queue
	if s.link != nil {
		requests = append(s.link.sent, s.queue...)
		s.link = nil
	}
	if s.ctx.Err() != nil {
		return // callers see that for themselves
	}
	s.failure = err
	s.gapDue = s.gapDue || len(s.want) > 0 // only what was acknowledged can have a gap
	s.queue = nil
	for _, r := range requests {
		switch {
		case r.own():
		case r.verb == unsubscribe:
			s.forget(r.channels) // as the server has
			r.finish(nil)
		case r.gone:
		case !s.answered:
			r.finish(firstFailure(r, err))
		default:
			s.queue = append(s.queue, r)
		}
	}
}

// firstFailure is what r's caller gets when no server has ever answered.
func firstFailure(r *request, err error) error {
	if !r.sent {
		return driver.NotSent(err)
	}
	if driver.OutcomeOf(err) != driver.OutcomeUnknown {
		// Not wrapped: its outcome is true of the connection, but would be taken for the request's.
		return fmt.Errorf("pubsub: %s: %v", r.verb, err)
	}
	return err
}
