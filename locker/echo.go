package locker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

const (
	// echoAfter is for how long a subscription may be silent, while somebody waits, until
	// the client says something to itself. So that many clients do not do so at once, it is
	// up to a quarter less, at random.
	echoAfter = 10 * time.Second
	// echoLimit is for how long, while somebody waits, nothing at all may be heard after
	// the server has taken that message. It is far more than a message takes.
	echoLimit = 10 * time.Second
	// echoTime bounds the request.
	echoTime = 5 * time.Second
	// echoMessage is of a kind that wakes nobody.
	echoMessage = "gl1|e|"
)

var errDeaf = errors.New("locker: nothing was heard for " + echoLimit.String() + " after a message of the client to itself: " +
	"the subscription may be at a server that is not the master, or not in the Cluster, any more; subscribing anew")

// errMuted is the error of a subscription on which messages have come, where the client may not
// publish any more. Often the reason is a permission for the channel. Then the client is not
// subscribed any more either, but a driver that connects again and is refused does not say so.
// Subscribing anew shows it.
var errMuted = errors.New("locker: the server has begun to refuse messages of the client to itself, and perhaps its subscription, too; subscribing anew")

// A monitor is what the hub knows of a subscription that is up. Its connection may be alive
// where no message arrives any more: at a former master, or at a node that has left the
// Cluster. That shows only by a message that is known to have to arrive, the echo.
//
// The hub's mu guards what is not constant.
type monitor struct {
	link   *link
	giveUp context.CancelCauseFunc // ends the subscription
	state  echoState
	due    time.Duration // by the hub's waitTime, when something has to be done about its silence
	ever   bool          // something was heard
}

// An echoState is what a monitor waits for until it is due, if it hears nothing.
type echoState int

const (
	echoUnasked  echoState = iota // it is simply silent
	echoAsked                     // the echo is under way to the server; nothing is due
	echoAnswered                  // the server has taken it
)

// listenOn hears what arrives on sub until sub ends, or until it does not hear what it must, and
// returns why. neverHeard reports whether it was the latter, and nothing had arrived at all.
func (h *hub) listenOn(node int, l *link, sub driver.Subscription) (neverHeard bool, err error) {
	ctx, giveUp := context.WithCancelCause(h.ctx)
	defer giveUp(nil)
	mon := &monitor{link: l, giveUp: giveUp}
	h.watch(node, mon)
	err = driver.Listen(ctx, sub, func(m driver.Message, err error) {
		h.heard(mon, err == nil)
		if err != nil {
			h.observers.subscription(Subscription{Node: node, Listening: true, Gap: true, Err: err})
		}
		h.hear(m, err)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.monitors[node] = nil
	if cause := context.Cause(ctx); errors.Is(cause, errDeaf) || errors.Is(cause, errMuted) {
		return !mon.ever, cause
	}
	return false, err
}

// watch begins to monitor a subscription.
func (h *hub) watch(node int, mon *monitor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.monitors[node] = mon
	h.restart(mon, time.Now())
	h.probe()
}

// heard notes that something has arrived: a message, or that the connection is a new one.
func (h *hub) heard(mon *monitor, message bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.restart(mon, time.Now())
	mon.ever = mon.ever || message
}

// restart lets the subscription be silent for a while from now on. It needs mu.
func (h *hub) restart(mon *monitor, now time.Time) {
	mon.state, mon.due = echoUnasked, h.waitTime.elapsed(now)+echoAfter-rand.N(echoAfter/4)
}

// probe does what is due about silent subscriptions, and sets the timer for what is due next. While
// nobody waits there is nothing to do. It needs mu.
func (h *hub) probe() {
	if len(h.slots) == 0 || h.isClosed {
		return
	}
	now := time.Now()
	for node, mon := range h.monitors {
		if mon == nil || mon.state == echoAsked {
			continue
		}
		left := mon.due - h.waitTime.elapsed(now)
		switch {
		case left > 0:
			h.timer.fireBy(now.Add(left))
		case mon.state == echoUnasked:
			mon.state = echoAsked
			h.wg.Go(func() { h.echo(mon) })
		default:
			h.monitors[node] = nil
			mon.giveUp(errDeaf)
		}
	}
}

// echo says something on the channel of the hub. Silence means something only where the
// server has taken the message: an outage is no reason to subscribe anew. A missing
// permission is a reason only where messages have come, so that the client does not
// subscribe again and again.
func (h *hub) echo(mon *monitor) {
	ctx, cancel := context.WithTimeout(h.ctx, echoTime)
	defer cancel()
	_, err := mon.link.doAlone(ctx, driver.Command{Args: []string{"PUBLISH", h.channel, echoMessage}})
	h.mu.Lock()
	defer h.mu.Unlock()
	switch now := time.Now(); {
	case mon.state != echoAsked: // it was heard before the reply
	case mon.ever && errors.Is(forbidden(err), ErrPermission):
		mon.giveUp(errMuted)
	case err != nil:
		h.restart(mon, now)
	default:
		mon.state, mon.due = echoAnswered, h.waitTime.elapsed(now)+echoLimit
	}
	h.probe()
}
