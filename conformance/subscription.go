package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// channel returns a channel of this case.
func (k *kit) channel(name string) string { return k.prefix + name }

var errNoSubscriber = errors.New("the Conn is no driver.Subscriber; Harness.Capabilities says it is")

func (k *kit) subscriber(conn driver.Conn) driver.Subscriber {
	s, ok := conn.(driver.Subscriber)
	if !ok {
		k.Fatalf("%v", errNoSubscriber)
	}
	return s
}

// subscription calls Subscribe. What it gives is closed at the end of the case.
func (k *kit) subscription(ctx context.Context, conn driver.Conn) (driver.Subscription, error) {
	sub, err := k.subscriber(conn).Subscribe(ctx)
	k.checkText(err)
	switch {
	case err != nil:
		return nil, err
	case sub == nil:
		k.Fatalf("Subscribe gave neither a Subscription nor an error")
	}
	k.closeLater(sub)
	return sub, nil
}

// subscribe opens a Subscription and adds channels.
func (k *kit) subscribe(conn driver.Conn, channels ...string) driver.Subscription {
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	sub, err := k.subscription(ctx, conn)
	if err != nil {
		k.Fatalf("Subscribe gave %v", err)
	}
	if len(channels) > 0 {
		k.add(sub, channels...)
	}
	return sub
}

func (k *kit) add(sub driver.Subscription, channels ...string) {
	ctx, cancel := k.within(k.time.settle)
	defer cancel()
	if err := sub.Add(ctx, channels...); err != nil {
		k.checkText(err)
		k.Fatalf("Add of %d channels gave %v", len(channels), err)
	}
}

func (k *kit) remove(sub driver.Subscription, channels ...string) {
	ctx, cancel := k.within(k.time.settle)
	defer cancel()
	if err := sub.Remove(ctx, channels...); err != nil {
		k.Fatalf("Remove of %d channels gave %v", len(channels), err)
	}
}

// publish publishes past the wire and returns the number of receivers.
func (k *kit) publish(channel, payload string) int64 {
	n, ok := k.direct("PUBLISH", channel, payload).(int64)
	if !ok {
		k.Fatalf("PUBLISH failed: the suite is at fault")
	}
	return n
}

// next waits for the next message or gap.
func (k *kit) next(sub driver.Subscription, within time.Duration) (driver.Message, error) {
	ctx, cancel := k.within(within)
	defer cancel()
	m, err := sub.Receive(ctx)
	k.checkText(err)
	return m, err
}

// receive checks that this is the next message.
func (k *kit) receive(sub driver.Subscription, channel, payload string) {
	m, err := k.next(sub, k.time.bound)
	if err != nil || m.Channel != channel || m.Payload != payload {
		k.Fatalf("Receive gave (channel %s, payload %s, %v); want %s on %s",
			shorten(m.Channel), shorten(m.Payload), err, shorten(payload), shorten(channel))
	}
}

// gap waits for ErrGap; messages before it are allowed.
func (k *kit) gap(sub driver.Subscription, within time.Duration) {
	end := time.Now().Add(within)
	for {
		_, err := k.next(sub, time.Until(end))
		switch {
		case errors.Is(err, driver.ErrGap):
			return
		case err != nil:
			k.Fatalf("Receive gave %v within %v; want ErrGap", err, within)
		}
	}
}

// restored waits for ErrGap. By then each of the channels has to be subscribed again.
func (k *kit) restored(sub driver.Subscription, within time.Duration, names ...string) {
	k.gap(sub, within)
	for _, name := range names {
		if k.publish(k.channel(name), "x") == 0 {
			k.Fatalf("Receive gave the gap, and nobody is subscribed to channel %q; waiters miss what is published there", name)
		}
	}
	k.delivers(sub, names...)
}

// acknowledged returns how many SUBSCRIBEs for a channel were answered.
func (k *kit) acknowledged(name string) int {
	n := 0
	for _, r := range k.wire.Requests(wire.Match{Name: "SUBSCRIBE", Arg: k.channel(name)}) {
		if r.Passed {
			n++
		}
	}
	return n
}

// delivers checks that messages to each channel arrive in the end. Gaps before
// them are allowed, because one outage may break several connections, and so
// are messages lost to a connection that the server does not know to be dead.
func (k *kit) delivers(sub driver.Subscription, names ...string) {
	for _, name := range names {
		ch, payload := k.channel(name), fmt.Sprint("to ", name, time.Now().UnixNano())
		end := time.Now().Add(k.time.settle)
		for {
			k.publish(ch, payload)
			m, err := k.next(sub, k.time.short)
			if err == nil && m.Channel == ch && m.Payload == payload {
				break
			}
			switch {
			case time.Now().After(end):
				k.Fatalf("%v after the network is back channel %q gets no messages: at last Receive gave (channel %s, payload %s, %v)",
					k.time.settle, name, shorten(m.Channel), shorten(m.Payload), err)
			case errors.Is(err, driver.ErrClosed):
				k.Fatalf("Receive gave %v; want the message to %q", err, name)
			}
			time.Sleep(k.time.pause) // other messages that come at once would stop a bubble's clock
		}
	}
}

// flood publishes n messages, numbered from 0, that nobody receives meanwhile.
func (k *kit) flood(name string, n int) {
	for i := range n {
		k.publish(k.channel(name), fmt.Sprint(i))
	}
}

// allOrGap receives the n messages of a flood: each is there, or a gap says that some are not.
func (k *kit) allOrGap(sub driver.Subscription, n int) {
	next, gap := 0, false
	within := k.time.settle // less after a gap, which may cover the rest
	for next < n {
		m, err := k.next(sub, within)
		switch {
		case errors.Is(err, driver.ErrGap):
			gap, within = true, k.time.short
		case errors.Is(err, context.DeadlineExceeded) && gap:
			return
		case err != nil:
			k.Fatalf("Receive gave %v after %d of %d messages and no gap", err, next, n)
		case m.Payload == fmt.Sprint(next):
			next++
		case gap:
			_, _ = fmt.Sscan(m.Payload, &next)
			next++
		default:
			k.Fatalf("message %d is %q; some were lost without a gap", next, m.Payload)
		}
	}
}
