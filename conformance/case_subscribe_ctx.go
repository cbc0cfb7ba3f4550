package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// subscribeCtxCases: which ctx ends what, and who ends a Subscription.
var subscribeCtxCases = []testCase{
	{name: "Subscribe/OutlivesItsCtx", needs: needs{subscriber: true}, run: func(k *kit) {
		// The ctx of Subscribe and Add bounds those calls only.
		ctx, cancel := k.within(k.time.bound)
		sub, err := k.subscription(ctx, k.open())
		if err != nil {
			k.Fatalf("Subscribe gave %v", err)
		}
		if err := sub.Add(ctx, k.channel("a")); err != nil {
			k.Fatalf("Add gave %v", err)
		}
		cancel()
		time.Sleep(k.time.pause)
		k.publish(k.channel("a"), "still here")
		k.receive(sub, k.channel("a"), "still here")
	}},
	{name: "Subscribe/Ctx/Receive", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"))
		for _, newCtx := range []ctxMaker{cancelAfter, deadlineAfter} {
			ctx, cancel := newCtx(k)
			k.promptCall(ctx, "Receive without a message", func() error {
				_, err := sub.Receive(ctx)
				return err
			})
			cancel()
		}
		k.publish(k.channel("a"), "still here")
		k.receive(sub, k.channel("a"), "still here")
	}},
	{name: "Subscribe/Ctx/NoLoss", needs: needs{subscriber: true}, run: func(k *kit) {
		// Messages come while Receives are given up; each comes out of the next.
		sub := k.subscribe(k.open(), k.channel("a"))
		ended, cancel := k.cancellable()
		cancel()
		for i := range 50 {
			ctx, cancel := k.within(time.Millisecond)
			if i%3 == 0 {
				ctx = ended
			}
			r := k.background(func() (driver.Value, error) {
				m, err := sub.Receive(ctx)
				if err == nil {
					return m.Payload, nil
				}
				return nil, err
			})
			if i%2 == 0 {
				time.Sleep(time.Millisecond)
			}
			k.publish(k.channel("a"), fmt.Sprint(i))
			k.wait(r, k.time.slack, "Receive whose ctx has ended")
			cancel()
			if r.err == nil {
				if r.value != fmt.Sprint(i) {
					k.Fatalf("Receive gave the message %s; want %d: one was lost or comes twice", show(r.value), i)
				}
				continue
			}
			if i%5 == 0 { // the message is there now; an ended ctx must not eat it
				time.Sleep(k.time.pause)
				if m, err := sub.Receive(ended); err == nil {
					if m.Payload != fmt.Sprint(i) {
						k.Fatalf("Receive gave %q; want message %d", m.Payload, i)
					}
					continue
				}
			}
			k.receive(sub, k.channel("a"), fmt.Sprint(i))
		}
	}},
	{name: "Subscribe/Ctx/NoLoss/Gap", needs: needs{subscriber: true}, run: func(k *kit) {
		// The gap comes while Receives are given up; it comes out of the next.
		sub := k.subscribe(k.open(), k.channel("a"))
		ended, cancel := k.cancellable()
		cancel()
		for round := range 5 {
			k.wire.KillAll()
			told := false
			k.eventually(k.time.settle, func() bool {
				restored := k.acknowledged("a") > round+1
				if restored {
					time.Sleep(k.time.pause) // the gap is there now
				}
				ctx, cancel := k.within(time.Millisecond)
				defer cancel()
				if round%2 == 0 {
					ctx = ended
				}
				_, err := sub.Receive(ctx)
				told = errors.Is(err, driver.ErrGap)
				return restored || told
			})
			if !told {
				k.gap(sub, k.time.settle)
			}
		}
	}},
	{name: "Subscribe/Close", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"))
		r := k.background(func() (driver.Value, error) { _, err := sub.Receive(k.ctx); return nil, err })
		time.Sleep(k.time.pause)
		for i := range 2 {
			var err error
			k.prompty("Close of a Subscription", func() { err = k.shut(sub) })
			if err != nil {
				k.Errorf("Close number %d of a Subscription gave %v; want nil", i+1, err)
			}
		}
		k.wait(r, k.time.slack, "Receive at Close")
		k.is("Receive at Close", r.err, driver.ErrClosed)
		_, err := sub.Receive(k.ctx)
		k.is("Receive after Close", err, driver.ErrClosed)
		k.is("Add after Close", sub.Add(k.ctx, k.channel("b")), driver.ErrClosed)
	}},
	{name: "Subscribe/ConnClose", needs: needs{subscriber: true}, run: func(k *kit) {
		conn := k.warm()
		sub := k.subscribe(conn, k.channel("a"))
		r := k.background(func() (driver.Value, error) { _, err := sub.Receive(k.ctx); return nil, err })
		time.Sleep(k.time.pause)
		k.prompty("Close of a Conn with a Subscription", func() { _ = k.shut(conn) })
		k.wait(r, k.time.slack, "Receive when its Conn is closed")
		k.is("Receive when its Conn is closed", r.err, driver.ErrClosed)
		if !k.eventually(k.time.settle, func() bool { return k.wire.Open() == 0 }) {
			k.Errorf("%d connections are open after Close of a Conn with a Subscription", k.wire.Open())
		}
		k.prompty("Close of a Subscription after its Conn's", func() { _ = k.shut(sub) })
	}},
}
