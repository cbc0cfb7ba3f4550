package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// maxSilence is how long a Subscription may take to notice a dead connection.
const maxSilence = 15 * time.Second

// subscribeFaultCases: a Subscription while the network is not well.
var subscribeFaultCases = []testCase{
	{name: "Subscribe/Gap", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"))
		for range 3 {
			k.wire.KillAll()
			k.gap(sub, k.time.settle)
			k.delivers(sub, "a")
		}
	}},
	{name: "Subscribe/Gap/AllChannels", needs: needs{subscriber: true}, run: func(k *kit) {
		// After the gap every channel is subscribed again, none that was removed.
		sub := k.subscribe(k.open(), k.channel("a"), k.channel("b"), k.channel("c"), k.channel("gone"))
		k.remove(sub, k.channel("gone"))
		k.wire.KillAll()
		k.gap(sub, k.time.settle)
		k.delivers(sub, "a", "b", "c")
		if n := k.publish(k.channel("gone"), "x"); n != 0 {
			k.Errorf("a removed channel came back with the reconnect")
		}
	}},
	{name: "Subscribe/Gap/Restored", needs: needs{subscriber: true}, run: func(k *kit) {
		// The gap comes when the channels are subscribed again, and not before: who looks
		// at a lock in between would sleep through the message that follows. Each channel may
		// have a SUBSCRIBE of its own, and either be the last.
		sub := k.subscribe(k.open(), k.channel("a"), k.channel("b"))
		for _, last := range []string{"a", "b"} {
			before := k.acknowledged(last)
			rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel(last)}, wire.HoldRequest)
			k.wire.KillAll()
			k.await(rule.Happened(), k.time.settle, "the Subscription has not subscribed again")
			_, err := k.next(sub, k.time.short)
			switch {
			case errors.Is(err, driver.ErrGap) && k.acknowledged(last) == before:
				k.Fatalf("Receive gave the gap while the channels were not subscribed again; waiters miss what is published until they are")
			case err == nil:
				k.Fatalf("Receive gave a message that nobody has published")
			}
			rule.Release()
			if !errors.Is(err, driver.ErrGap) {
				k.gap(sub, k.time.settle)
			}
			k.delivers(sub, "a", "b")
		}
	}},
	{name: "Subscribe/Gap/Unread", needs: needs{subscriber: true}, run: func(k *kit) {
		// The connection breaks while nobody is in Receive: what came before is
		// delivered or covered, and the gap is not lost.
		sub := k.subscribe(k.open(), k.channel("a"))
		k.publish(k.channel("a"), "before")
		time.Sleep(k.time.pause)
		k.wire.KillAll()
		if !k.eventually(k.time.settle, func() bool { return k.acknowledged("a") > 1 }) {
			k.Fatalf("the Subscription has not subscribed again after %v", k.time.settle)
		}
		k.publish(k.channel("a"), "after")
		gap := false
		for {
			m, err := k.next(sub, k.time.settle)
			switch {
			case errors.Is(err, driver.ErrGap):
				gap = true
			case err != nil:
				k.Fatalf("Receive gave %v; the gap seen: %t", err, gap)
			case m.Payload == "after" && gap:
				return
			case m.Payload == "after":
				// It may overtake the gap, but the gap has to follow.
				k.gap(sub, k.time.settle)
				return
			}
		}
	}},
	{name: "Subscribe/Gap/DuringAdd", needs: needs{subscriber: true}, run: func(k *kit) {
		// The acknowledgement is lost. Add fails or comes through by the
		// reconnect; afterwards a further Add works and the old channel is kept.
		sub := k.subscribe(k.open(), k.channel("a"))
		k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel("b")}, wire.CutReply)
		ctx, cancel := k.within(k.time.settle)
		defer cancel()
		err := sub.Add(ctx, k.channel("b"))
		if errors.Is(err, context.DeadlineExceeded) {
			k.Errorf("Add whose acknowledgement is lost does not return for %v", k.time.settle)
		}
		k.add(sub, k.channel("b"))
		k.gap(sub, k.time.settle)
		k.delivers(sub, "a", "b")
	}},
	{name: "Subscribe/Gap/Refused", needs: needs{subscriber: true}, run: func(k *kit) {
		// The server refuses to subscribe again, once: that is no acknowledgement, and no reason
		// to forget the channels.
		sub := k.subscribe(k.open(), k.channel("a"), k.channel("b"))
		k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel("a")}, wire.Answer("-ERR not now\r\n"))
		k.wire.KillAll()
		k.restored(sub, k.time.settle, "a", "b")
	}},
	{name: "Subscribe/Gap/Twice", needs: needs{subscriber: true}, run: func(k *kit) {
		// The connection breaks again before the channels are subscribed again.
		sub := k.subscribe(k.open(), k.channel("a"), k.channel("b"))
		rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel("a"), Times: 2}, wire.CutRequest)
		k.wire.KillAll()
		k.restored(sub, k.time.settle, "a", "b")
		if n := rule.Applied(); n != 2 {
			k.Errorf("the gap came after %d connections of 2 that break", n)
		}
	}},
	{name: "Subscribe/BlackHole", needs: needs{subscriber: true}, run: func(k *kit) {
		// The connection swallows everything and stays open; new ones work.
		sub := k.subscribe(k.open(), k.channel("a"))
		k.publish(k.channel("a"), "before")
		k.receive(sub, k.channel("a"), "before")
		k.wire.Mute()
		k.gap(sub, maxSilence+k.time.slack)
		k.delivers(sub, "a")
	}},
	{name: "Subscribe/BlackHole/Idle", needs: needs{subscriber: true}, run: func(k *kit) {
		// Nobody is in Receive, and still the driver notices by itself.
		sub := k.subscribe(k.open(), k.channel("a"))
		k.wire.Mute()
		time.Sleep(maxSilence)
		k.gap(sub, k.time.dial+k.time.slack)
		k.delivers(sub, "a")
	}},
	{name: "Subscribe/BlackHole/Add", needs: needs{subscriber: true}, run: func(k *kit) {
		// The connection dies while an acknowledgement is due. However long a caller waits for that,
		// the channels that are there already are not deaf for as long.
		sub := k.subscribe(k.open(), k.channel("a"))
		rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel("b")}, wire.BlackHole)
		ctx, cancel := k.within(2 * maxSilence)
		defer cancel()
		add := k.background(func() (driver.Value, error) { return nil, sub.Add(ctx, k.channel("b")) })
		k.await(rule.Happened(), k.time.bound, "SUBSCRIBE has not reached the wire")
		k.gap(sub, maxSilence+k.time.slack)
		k.delivers(sub, "a")
		k.wait(add, 2*maxSilence+k.time.slack, "Add whose SUBSCRIBE is lost")
		if add.err == nil {
			k.delivers(sub, "a", "b")
		}
	}},
	{name: "Subscribe/BlackHole/Resubscribe", needs: needs{subscriber: true}, run: func(k *kit) {
		// The connection dies while the channels are subscribed again.
		if k.realTime() {
			k.Skipf("a silent connection takes up to %v in real time; see Subscribe/BlackHole", maxSilence)
		}
		sub := k.subscribe(k.open(), k.channel("a"))
		k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel("a")}, wire.BlackHole)
		k.wire.KillAll()
		k.restored(sub, maxSilence+k.time.dial+k.time.slack, "a")
	}},
	{name: "Subscribe/HungDial", needs: needs{subscriber: true}, run: func(k *kit) {
		// The packets of one dial vanish: that dial never gets a connection, and the next one does.
		if k.realTime() {
			k.Skipf("a listener cannot let one dial hang and not the next")
		}
		var hang atomic.Bool
		hangs := make(chan struct{})
		sub := k.subscribe(k.open(func(c *driver.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if !hang.CompareAndSwap(true, false) {
					return dial(ctx, network, addr)
				}
				close(hangs)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}), k.channel("a"))
		hang.Store(true)
		k.wire.KillAll()
		k.await(hangs, k.time.settle, "the Subscription does not reconnect")
		k.restored(sub, k.time.dial+k.time.settle, "a")
	}},
	{name: "Subscribe/HungDial/Calls", needs: needs{subscriber: true}, run: func(k *kit) {
		// While a Subscription dials and the dial hangs, the commands, such as renewals, have their connections.
		conn := k.warm(func(c *driver.Config) { c.DialTimeout, c.Timeout = 2*k.time.bound, 2*k.time.bound })
		k.wire.HangDials()
		ctx, cancel := k.cancellable()
		add := k.background(func() (driver.Value, error) {
			sub, err := k.subscription(ctx, conn)
			if err == nil {
				err = sub.Add(ctx, k.channel("a"))
			}
			k.checkText(err)
			return nil, err
		})
		time.Sleep(k.time.pause)
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
		cancel()
		k.wait(add, k.time.bound, "Subscribe and Add that dial")
		k.wire.ResumeDials()
		k.recovers(conn)
	}},
	{name: "Subscribe/HungHandshake", needs: needs{subscriber: true}, run: func(k *kit) {
		// A server that accepts connections and says nothing is there when the Subscription
		// reconnects, and gone a moment later.
		sub := k.subscribe(k.open(), k.channel("a"))
		rule := k.wire.On(wire.Match{Times: -1}, wire.BlackHole)
		k.wire.KillAll()
		k.await(rule.Happened(), k.time.settle, "the Subscription does not reconnect")
		time.Sleep(k.time.pause) // so that other connections of the client are swallowed, too
		rule.Remove()
		k.gap(sub, maxSilence+k.time.settle)
		k.delivers(sub, "a")
	}},
	{name: "Subscribe/Quiet", needs: needs{subscriber: true}, run: func(k *kit) {
		// A connection on which nothing is published is not a dead one.
		if k.realTime() {
			k.Skipf("this takes minutes in real time")
		}
		sub := k.subscribe(k.open(), k.channel("a"))
		if m, err := k.next(sub, 2*time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			k.Errorf("a quiet Subscription gave (%+v, %v); want nothing", m, err)
		}
		if n := k.acknowledged("a") - 1; n > 0 {
			k.Errorf("a quiet Subscription reconnected %d times", n)
		}
		k.publish(k.channel("a"), "x")
		k.receive(sub, k.channel("a"), "x")
	}},
	{name: "Subscribe/Outage", needs: needs{subscriber: true}, run: func(k *kit) {
		// The server is away for a while. The Subscription comes back by itself.
		sub := k.subscribe(k.open(), k.channel("a"))
		k.wire.Refuse(true)
		k.wire.KillAll()
		for range 5 {
			if _, err := k.next(sub, k.time.short); errors.Is(err, driver.ErrClosed) {
				k.Errorf("Receive gave %v; the Subscription must come back", err)
			}
		}
		k.wire.Refuse(false)
		k.delivers(sub, "a")
		// Or it is there, and lets nobody in.
		relent := k.refuseHandshakes()
		k.wire.KillAll()
		_, _ = k.next(sub, 2*k.time.reply)
		relent()
		k.delivers(sub, "a")
	}},
	{name: "Subscribe/Ctx/Add", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"))
		ended, cancel := k.cancellable()
		cancel()
		k.is("Add with an ended ctx", sub.Add(ended, k.channel("never")), context.Canceled)
		for i, newCtx := range []ctxMaker{cancelAfter, deadlineAfter} {
			ch := k.channel(fmt.Sprint("b", i))
			rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: ch}, wire.HoldReply)
			ctx, cancel := newCtx(k)
			k.promptCall(ctx, "Add without an acknowledgement", func() error { return sub.Add(ctx, ch) })
			cancel()
			rule.Release()
			k.add(sub, ch) // as the caller may, and nothing of the first takes it back
		}
		time.Sleep(k.time.short)
		k.delivers(sub, "a", "b0", "b1")
	}},
	{name: "Subscribe/Ctx/Remove", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"), k.channel("b"))
		rule := k.wire.On(wire.Match{Name: "UNSUBSCRIBE"}, wire.HoldReply)
		ctx, cancel := cancelAfter(k)
		defer cancel()
		k.promptCall(ctx, "Remove without an acknowledgement", func() error { return sub.Remove(ctx, k.channel("b")) })
		// Who adds the channel again meanwhile has it, though the server has removed it.
		add := k.background(func() (driver.Value, error) { k.add(sub, k.channel("b")); return nil, nil })
		time.Sleep(k.time.pause)
		rule.Release()
		k.wait(add, k.time.settle, "Add behind a Remove that was given up")
		k.delivers(sub, "a", "b")
	}},
	{name: "Subscribe/Ctx/HungDial", needs: needs{subscriber: true}, run: func(k *kit) {
		conn := k.warm()
		k.wire.HangDials()
		ctx, cancel := cancelAfter(k)
		defer cancel()
		k.promptCall(ctx, "Subscribe and Add while dialing hangs", func() error {
			sub, err := k.subscription(ctx, conn)
			if err != nil {
				return err
			}
			return sub.Add(ctx, k.channel("a"))
		})
	}},
	{name: "Subscribe/Close/Add", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"))
		rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel("b")}, wire.HoldReply)
		add := k.background(func() (driver.Value, error) { return nil, sub.Add(k.ctx, k.channel("b")) })
		k.await(rule.Happened(), k.time.bound, "SUBSCRIBE has not reached the server")
		k.prompty("Close of a Subscription", func() { _ = k.shut(sub) })
		k.wait(add, k.time.slack, "Add at Close")
		k.is("Add at Close", add.err, driver.ErrClosed)
	}},
	{name: "Subscribe/Close/Outage", needs: needs{subscriber: true}, run: func(k *kit) {
		// Close is prompt while the Subscription tries to reconnect, too.
		sub := k.subscribe(k.open(), k.channel("a"))
		k.wire.HangDials()
		k.wire.KillAll()
		dials := k.wire.Dials()
		k.eventually(k.time.settle, func() bool { return k.wire.Dials() > dials })
		k.prompty("Close of a Subscription that reconnects", func() { _ = k.shut(sub) })
	}},
}
