package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// listenCases: a Subscription that is a driver.Listener, which is how the core listens to it.
var listenCases = []testCase{
	{name: "Subscribe/Listen", needs: needs{listener: true}, run: func(k *kit) {
		// Listen hears what came before and what comes meanwhile, and that something may be missing.
		sub := k.subscribe(k.open(), k.channel("a"))
		k.publish(k.channel("a"), "before")
		time.Sleep(k.time.pause) // nobody is in Receive
		e := k.ear(sub)
		k.background(func() (driver.Value, error) { return nil, e.listen(k.ctx) })
		e.hears("before")
		for i := range 10 {
			k.publish(k.channel("a"), fmt.Sprint(i))
		}
		for i := range 10 {
			e.hears(fmt.Sprint(i))
		}
		k.wire.KillAll()
		e.hears(gapHeard)
		k.publish(k.channel("a"), "after the gap")
		e.hears("after the gap")
	}},
	{name: "Subscribe/Ctx/Listen", needs: needs{listener: true}, run: func(k *kit) {
		// Listen ends with the ctx's error, and from then on Receive gets what comes.
		sub := k.subscribe(k.open(), k.channel("a"))
		for _, newCtx := range []ctxMaker{cancelAfter, deadlineAfter} {
			e := k.ear(sub)
			ctx, cancel := newCtx(k)
			k.promptCall(ctx, "Listen", func() error { return e.listen(ctx) })
			cancel()
			k.publish(k.channel("a"), "after")
			k.receive(sub, k.channel("a"), "after")
			e.hears() // nothing
		}
	}},
	{name: "Subscribe/Ctx/NoLoss/Listen", needs: needs{listener: true}, run: func(k *kit) {
		// Messages come while Listens end; each is heard, or comes out of the next Receive.
		sub := k.subscribe(k.open(), k.channel("a"))
		const messages = 4
		for round := range 20 {
			e := k.ear(sub)
			ctx, cancel := k.cancellable()
			l := k.background(func() (driver.Value, error) { return nil, e.listen(ctx) })
			for i := range messages {
				if i == round%messages {
					cancel()
				}
				k.publish(k.channel("a"), fmt.Sprint(i))
			}
			k.wait(l, k.time.slack, "Listen whose ctx has ended")
			cancel()
			next := len(e.heard)
			for i := range next {
				e.hears(fmt.Sprint(i))
			}
			for i := next; i < messages; i++ {
				k.receive(sub, k.channel("a"), fmt.Sprint(i))
			}
		}
		// So is a gap that comes when nobody is there to hear of it.
		k.wire.KillAll()
		if !k.eventually(k.time.settle, func() bool { return k.acknowledged("a") > 1 }) {
			k.Fatalf("the Subscription has not subscribed again after %v", k.time.settle)
		}
		time.Sleep(k.time.pause)
		e := k.ear(sub)
		k.background(func() (driver.Value, error) { return nil, e.listen(k.ctx) })
		e.hears(gapHeard)
	}},
	{name: "Subscribe/Close/Listen", needs: needs{listener: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"))
		e := k.ear(sub)
		l := k.background(func() (driver.Value, error) { return nil, e.listen(k.ctx) })
		time.Sleep(k.time.pause)
		k.prompty("Close of a Subscription", func() { _ = k.shut(sub) })
		k.wait(l, k.time.slack, "Listen at Close")
		k.is("Listen at Close", l.err, driver.ErrClosed)
		k.prompty("Listen after Close", func() { k.is("Listen after Close", e.listen(k.ctx), driver.ErrClosed) })
	}},
}

// gapHeard stands for ErrGap in what an ear hears.
const gapHeard = "(ErrGap)"

// An ear is for one Listen, and what it hears.
type ear struct {
	k     *kit
	sub   driver.Listener
	heard chan string
	busy  atomic.Bool // hear has been called and has not returned
	over  atomic.Bool // Listen has returned
}

func (k *kit) ear(sub driver.Subscription) *ear {
	l, ok := sub.(driver.Listener)
	if !ok {
		k.Fatalf("the Subscription is no driver.Listener; Harness.Capabilities says it is")
	}
	return &ear{k: k, sub: l, heard: make(chan string, 100)}
}

func (e *ear) listen(ctx context.Context) error {
	e.over.Store(false)
	defer e.over.Store(true)
	return e.sub.Listen(ctx, e.hear)
}

func (e *ear) hear(m driver.Message, err error) {
	what := m.Payload
	switch {
	case errors.Is(err, driver.ErrGap):
		what = gapHeard
	case err != nil:
		e.k.Errorf("Listen tells of %v, which is no ErrGap; want it returned", err)
	case m.Channel != e.k.channel("a"):
		e.k.Errorf("Listen tells of a message on %s; want %s", shorten(m.Channel), shorten(e.k.channel("a")))
	}
	if !e.busy.CompareAndSwap(false, true) {
		e.k.Errorf("Listen calls hear twice at a time")
	}
	for range 1000 { // another call that begins meanwhile is seen; during a sleep a mutex could be held, and with it the clock
		runtime.Gosched()
	}
	defer e.busy.Store(false)
	if e.over.Load() {
		e.k.Errorf("Listen has returned, and tells of %s", what)
	}
	select {
	case e.heard <- what:
	default:
		e.k.Errorf("Listen tells of %s, after %d messages that nobody has published", what, cap(e.heard))
	}
}

// hears checks what is heard next.
func (e *ear) hears(all ...string) {
	if len(all) == 0 && len(e.heard) > 0 {
		e.k.Errorf("Listen tells of %s; want nothing", <-e.heard)
	}
	timer := time.NewTimer(e.k.time.settle)
	defer timer.Stop()
	for _, want := range all {
		select {
		case got := <-e.heard:
			if got != want {
				e.k.Fatalf("Listen tells of %s; want %s", got, want)
			}
		case <-timer.C:
			e.k.Fatalf("Listen has not told of %s after %v", want, e.k.time.settle)
		}
	}
}
