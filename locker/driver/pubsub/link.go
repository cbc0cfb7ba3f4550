package pubsub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// maxResubscribe is how many channels one SUBSCRIBE takes after a reconnect.
const maxResubscribe = 256

var errSilent = fmt.Errorf("pubsub: the connection was silent for %v", DeadAfter)

// A link is the state of one connection. Subscription.mu guards it.
type link struct {
	again     []*request // to subscribe to all channels again, not yet sent
	againLeft int        // how many of these are not yet acknowledged
	sent      []*request // waiting for their replies, in order
	heard     time.Time  // when something arrived last, or the connection was made
	pinged    bool       // PING sent since heard
}

// serve uses conn until it fails or Close, closes it, and returns why. The
// reader and the writer are goroutines of their own: a server that reads
// nothing, or says nothing, holds up only one of them, and not this one.
func (s *Subscription) serve(conn Conn) error {
	ctx, cancel := context.WithCancelCause(s.ctx)
	l := s.newLink()
	var wg sync.WaitGroup
	wg.Go(func() { cancel(s.read(ctx, conn, l)) })
	wg.Go(func() { cancel(s.write(ctx, conn, l)) })
	s.watch(ctx, cancel, l)
	_ = conn.Close() // whatever it says, the connection is not used again
	wg.Wait()
	return context.Cause(ctx)
}

func (s *Subscription) newLink() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &link{heard: time.Now()}
	for channels := range slices.Chunk(slices.Sorted(maps.Keys(s.want)), maxResubscribe) {
		l.again = append(l.again, &request{verb: subscribe, channels: channels})
	}
	l.againLeft = len(l.again)
	s.link = l
	s.reportGapIfComplete(l)
	return l
}

func (s *Subscription) reportGapIfComplete(l *link) {
	if l.againLeft == 0 && s.gapDue {
		s.gapDue = false
		s.deliver(item{gap: true})
	}
}

// watch waits for the end of ctx. It ends ctx itself when the connection is
// silent for too long.
func (s *Subscription) watch(ctx context.Context, cancel context.CancelCauseFunc, l *link) {
	timer := time.NewTimer(DeadAfter)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			left := DeadAfter - s.silence(l)
			if left <= 0 {
				cancel(errSilent)
				return
			}
			timer.Reset(left)
		}
	}
}

func (s *Subscription) silence(l *link) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(l.heard)
}

// write sends what there is to send.
func (s *Subscription) write(ctx context.Context, conn Conn, l *link) error {
	idle := time.NewTimer(PingAfter)
	defer idle.Stop()
	for {
		if r := s.nextRequest(l); r != nil {
			if err := conn.Send(ctx, r.args()...); err != nil {
				return fmt.Errorf("pubsub: sending: %w", err)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-idle.C:
			idle.Reset(s.untilPing(l))
		}
	}
}

// untilPing returns when to look again whether a PING is due.
func (s *Subscription) untilPing(l *link) time.Duration {
	silence := s.silence(l)
	if silence < PingAfter {
		return PingAfter - silence
	}
	return PingAfter
}

// nextRequest returns what to send next, or nil, and notes that its reply is
// due: the reply may come before Send returns.
func (s *Subscription) nextRequest(l *link) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r *request
	switch {
	case len(l.again) > 0:
		r, l.again = l.again[0], l.again[1:]
	case len(s.queue) > 0:
		r, s.queue = s.queue[0], s.queue[1:]
	case !l.pinged && time.Since(l.heard) >= PingAfter:
		r, l.pinged = &request{verb: ping}, true
	default:
		return nil
	}
	r.sent = true
	r.unacked = slices.Clone(r.channels)
	l.sent = append(l.sent, r)
	return r
}

// read handles what arrives.
func (s *Subscription) read(ctx context.Context, conn Conn, l *link) error {
	for {
		event, err := conn.Receive(ctx)
		if reply, ok := errors.AsType[*driver.ServerError](err); ok {
			err = s.refused(l, reply)
		} else if err == nil {
			err = s.handle(l, event)
		} else {
			err = fmt.Errorf("pubsub: receiving: %w", err)
		}
		if err != nil {
			return err
		}
	}
}

func (s *Subscription) hear(l *link) {
	s.answered = true
	l.heard = time.Now()
	l.pinged = false
}

// handle returns an error if the connection is not to be used any more.
func (s *Subscription) handle(l *link, event Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hear(l)
	switch event.Kind {
	case Message:
		s.deliver(item{message: driver.Message{Channel: event.Channel, Payload: event.Payload}})
	case Subscribed:
		return s.acknowledged(l, subscribe, event.Channel)
	case Unsubscribed:
		return s.acknowledged(l, unsubscribe, event.Channel)
	case Pong:
		if len(l.sent) > 0 && l.sent[0].verb == ping {
			l.sent = l.sent[1:]
		}
	}
	return nil
}

// acknowledged takes one channel off the first request that waits. An
// acknowledgement that nobody asked for means that somebody else, the client or
// the server, subscribes or unsubscribes here, and that messages may have been
// missed unnoticed.
func (s *Subscription) acknowledged(l *link, v verb, channel string) error {
	for len(l.sent) > 0 && l.sent[0].verb == ping { // its Pong went unnoticed
		l.sent = l.sent[1:]
	}
	if len(l.sent) == 0 || l.sent[0].verb != v || !l.sent[0].ack(channel) {
		return fmt.Errorf("pubsub: the server acknowledged a %s that is not due", v)
	}
	r := l.sent[0]
	if len(r.unacked) > 0 {
		return nil
	}
	l.sent = l.sent[1:]
	switch {
	case r.own():
		l.againLeft--
		s.reportGapIfComplete(l)
	case v == unsubscribe:
		s.forget(r.channels)
	case !r.gone:
		for _, c := range r.channels {
			s.want[c] = struct{}{}
		}
	}
	r.finish(nil)
	return nil
}

// refused gives an error reply to the request that it answers.
func (s *Subscription) refused(l *link, reply *driver.ServerError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hear(l)
	if len(l.sent) == 0 {
		return nil // it answers nothing of ours
	}
	r := l.sent[0]
	l.sent = l.sent[1:]
	if r.own() && r.verb == subscribe {
		return fmt.Errorf("pubsub: subscribing again: %w", reply)
	}
	r.finish(reply)
	return nil
}
