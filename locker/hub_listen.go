package locker

import (
	"context"
	"errors"
	"fmt"

	"github.com/golocker/golocker/locker/driver"
)

// How a hub keeps the subscriptions on which it hears.

// listens tells whether messages arrive, as far as is known.
func (h *hub) listens() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.up > 0
}

// ready waits a little until it is known whether messages arrive.
func (h *hub) ready(ctx context.Context) {
	select {
	case <-h.settled: // nearly always
	default:
		await(ctx.Done(), h.settled, settleTime)
	}
}

func (h *hub) run(node int, l *link) {
	pause := resubscribePause
	for first := true; ; first = false {
		sub, err := h.subscribe(l)
		if err == nil {
			h.set(true)
			h.observers.subscription(Subscription{Node: node, Listening: true})
		}
		if first {
			h.tried()
		}
		if err == nil {
			var neverHeard bool
			neverHeard, err = h.listenOn(node, l, sub)
			sub.Close()
			h.set(false)
			if !neverHeard {
				pause = resubscribePause
			}
		}
		if h.ctx.Err() == nil {
			h.observers.subscription(Subscription{Node: node, Err: err})
		}
		if errors.Is(err, driver.ErrUnsupported) {
			return
		}
		if await(nil, h.ctx.Done(), pause) {
			return
		}
		pause = min(2*pause, resubscribeLimit)
	}
}

func (h *hub) subscribe(l *link) (driver.Subscription, error) {
	ctx, cancel := context.WithTimeout(h.ctx, subscribeTime)
	defer cancel()
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	l.describe(ctx, conn.Conn)
	subscriber, ok := conn.Conn.(driver.Subscriber)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	sub, err := subscriber.Subscribe(ctx)
	if err != nil {
		return nil, err
	}
	if sub == nil {
		return nil, fmt.Errorf("the driver's Subscribe gave neither a Subscription nor an error: %w", driver.ErrUnsupported)
	}
	if err := sub.Add(ctx, h.channel); err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// hear wakes the waiter whom a message is for. After a gap it wakes all: the message that
// was missed may have been anybody's.
func (h *hub) hear(m driver.Message, err error) {
	if err != nil {
		h.wakeAll()
	} else if reservation, w, ok := parseMessage(m.Payload); ok {
		h.wake(reservation, w)
	}
}

// tried notes that the first attempt to listen on a link is over.
func (h *hub) tried() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.untried--; h.untried == 0 {
		h.settle()
	}
}

// settle needs mu.
func (h *hub) settle() {
	select {
	case <-h.settled:
	default:
		close(h.settled)
	}
}

// set notes whether messages arrive on a link. When they begin to, or no more arrive on any,
// everybody has to try once more, to be entered as listening or not, and to sleep for as long
// as that allows.
func (h *hub) set(up bool) {
	h.mu.Lock()
	if up {
		h.up++
		h.settle()
	} else {
		h.up--
	}
	silent := h.up == 0
	h.mu.Unlock()
	if up || silent {
		h.wakeAll()
	}
}
