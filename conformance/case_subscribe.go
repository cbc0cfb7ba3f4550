package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// subscribeCases: a Subscription while the network is well.
var subscribeCases = []testCase{
	{name: "Subscribe/Ack", needs: needs{subscriber: true}, run: func(k *kit) {
		// Add returns after the server's acknowledgement and not before.
		sub := k.subscribe(k.open())
		ch := k.channel("a")
		rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: ch}, wire.HoldReply)
		ctx, cancel := k.within(k.time.settle)
		defer cancel()
		add := k.background(func() (driver.Value, error) { return nil, sub.Add(ctx, ch) })
		k.await(rule.Happened(), k.time.bound, "SUBSCRIBE has not reached the server")
		select {
		case <-add.done:
			k.Errorf("Add returned %v before the acknowledgement", add.err)
		case <-time.After(k.time.short):
		}
		rule.Release()
		k.wait(add, k.time.slack, "Add whose acknowledgement has arrived")
		if add.err != nil {
			k.Errorf("Add gave %v", add.err)
		}
	}},
	{name: "Subscribe/Ack/Concurrent", needs: needs{subscriber: true}, run: func(k *kit) {
		// An Add of a channel for which another Add still waits has to wait, too.
		sub := k.subscribe(k.open(), k.channel("a"))
		ch := k.channel("b")
		rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: ch}, wire.HoldRequest)
		ctx, cancel := k.within(k.time.settle)
		defer cancel()
		add := func() (driver.Value, error) { return nil, sub.Add(ctx, ch) }
		first := k.background(add)
		k.await(rule.Happened(), k.time.bound, "SUBSCRIBE has not reached the wire")
		second := k.background(add)
		select {
		case <-first.done:
			k.Errorf("Add returned %v before the acknowledgement", first.err)
		case <-second.done:
			k.Errorf("Add of a channel for which another Add still waits returned %v before the acknowledgement", second.err)
		case <-time.After(k.time.short):
		}
		rule.Release()
		for _, c := range []*call{first, second} {
			k.wait(c, k.time.settle, "Add of a channel that two add")
			if c.err != nil {
				k.Errorf("Add of a channel that two add gave %v", c.err)
			}
		}
		k.publish(ch, "x")
		k.receive(sub, ch, "x")
	}},
	{name: "Subscribe/Ack/Each", needs: needs{subscriber: true}, run: func(k *kit) {
		// Of two channels the server acknowledges each; Add waits for both. They are asked
		// for, in their order, on a connection that exists already.
		sub := k.subscribe(k.open(), k.channel("before"))
		rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel("b")}, wire.HoldLast)
		ctx, cancel := k.within(k.time.settle)
		defer cancel()
		add := k.background(func() (driver.Value, error) { return nil, sub.Add(ctx, k.channel("a"), k.channel("b")) })
		k.await(rule.Happened(), k.time.bound, "SUBSCRIBE has not reached the server")
		select {
		case <-add.done:
			k.Errorf("Add of two channels returned %v when the server had acknowledged one", add.err)
		case <-time.After(k.time.short):
		}
		rule.Release()
		k.wait(add, k.time.slack, "Add whose acknowledgements have arrived")
		if add.err != nil {
			k.Errorf("Add gave %v", add.err)
		}
	}},
	{name: "Subscribe/Message", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"))
		for i := range 20 {
			k.publish(k.channel("a"), fmt.Sprint(i))
		}
		time.Sleep(k.time.pause) // they are there before anybody receives
		for i := range 20 {
			k.receive(sub, k.channel("a"), fmt.Sprint(i))
		}
	}},
	{name: "Subscribe/AtOnce", needs: needs{subscriber: true}, run: func(k *kit) {
		// A message published right after Add is delivered, every time.
		sub := k.subscribe(k.open())
		for i := range 20 {
			ch := k.channel(fmt.Sprint("ch", i))
			if i == 0 { // and once where the server is slow
				rule := k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: ch}, wire.HoldRequest)
				time.AfterFunc(k.time.short, rule.Release)
			}
			k.add(sub, ch)
			k.publish(ch, "now")
			k.receive(sub, ch, "now")
		}
	}},
	{name: "Subscribe/Count", needs: needs{subscriber: true}, run: func(k *kit) {
		// PUBLISH tells how many listen, also to a script, and the core believes it.
		conn := k.open()
		ch := k.channel("a")
		listeners := func(n int64) {
			k.reply(conn, plain("PUBLISH", ch, "x"), n)
			k.reply(conn, script("return redis.call('PUBLISH', KEYS[1], 'x')", []string{ch}), n)
		}
		listeners(0)
		k.subscribe(conn, ch)
		listeners(1)
		k.subscribe(conn, ch)
		listeners(2)
	}},
	{name: "Subscribe/Waiting", needs: needs{subscriber: true}, run: func(k *kit) {
		// A message wakes a Receive that waits, at once.
		sub := k.subscribe(k.open(), k.channel("a"))
		var got driver.Message
		r := k.background(func() (_ driver.Value, err error) { got, err = sub.Receive(k.ctx); return nil, err })
		time.Sleep(k.time.short)
		k.publish(k.channel("a"), "wake up")
		k.wait(r, k.time.slack, "Receive after a message was published")
		if r.err != nil || got.Payload != "wake up" || got.Channel != k.channel("a") {
			k.Errorf("Receive gave (%+v, %v)", got, r.err)
		}
	}},
	{name: "Subscribe/Binary", needs: needs{subscriber: true}, run: func(k *kit) {
		ch := k.channel(allBytes)
		sub := k.subscribe(k.open(), ch)
		for _, payload := range []string{allBytes, "", "\x00", "\r\n", " spaces "} {
			k.publish(ch, payload)
			k.receive(sub, ch, payload)
		}
	}},
	{name: "Subscribe/AddSeveral", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"), k.channel("b"), k.channel("c"))
		k.add(sub, k.channel("d"))
		for _, ch := range []string{"c", "a", "d", "b"} {
			k.publish(k.channel(ch), "to "+ch)
			k.receive(sub, k.channel(ch), "to "+ch)
		}
	}},
	{name: "Subscribe/AddTwice", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"))
		k.add(sub, k.channel("a"))
		k.add(sub, k.channel("a"), k.channel("b"))
		k.publish(k.channel("a"), "once")
		k.publish(k.channel("b"), "next")
		k.receive(sub, k.channel("a"), "once")
		k.receive(sub, k.channel("b"), "next")
	}},
	{name: "Subscribe/AddNothing", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open())
		k.add(sub)
		k.remove(sub)
		k.add(sub, k.channel("a"))
		k.publish(k.channel("a"), "x")
		k.receive(sub, k.channel("a"), "x")
	}},
	{name: "Subscribe/Remove", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open(), k.channel("a"), k.channel("b"))
		k.remove(sub, k.channel("a"))
		k.publish(k.channel("a"), "removed")
		k.publish(k.channel("b"), "kept")
		k.receive(sub, k.channel("b"), "kept")
		if n := k.publish(k.channel("a"), "again"); n != 0 {
			k.Errorf("after Remove has returned a message still has %d receivers", n)
		}
		// Everything removed, and a new beginning on the same Subscription.
		k.remove(sub, k.channel("b"))
		k.add(sub, k.channel("a"))
		k.publish(k.channel("a"), "back")
		k.receive(sub, k.channel("a"), "back")
	}},
	{name: "Subscribe/RemoveUnknown", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open())
		k.remove(sub, k.channel("never added"))
		k.add(sub, k.channel("a"))
		k.remove(sub, k.channel("never added"), k.channel("neither"))
		k.publish(k.channel("a"), "x")
		k.receive(sub, k.channel("a"), "x")
	}},
	{name: "Subscribe/WithoutReceive", needs: needs{subscriber: true}, run: func(k *kit) {
		// Add and Remove make progress while messages pile up unread; then each
		// message is there or a gap says that some are not.
		sub := k.subscribe(k.open(), k.channel("busy"))
		k.flood("busy", 500)
		k.add(sub, k.channel("late"))
		k.remove(sub, k.channel("late"))
		k.allOrGap(sub, 500)
	}},
	{name: "Subscribe/Flood", needs: needs{subscriber: true}, run: func(k *kit) {
		// More messages than anybody keeps: a client may drop what is too much, but has to say so.
		sub := k.subscribe(k.open(), k.channel("busy"))
		const n = 1500
		k.flood("busy", n)
		k.allOrGap(sub, n)
	}},
	{name: "Subscribe/ConcurrentAdd", needs: needs{subscriber: true}, run: func(k *kit) {
		sub := k.subscribe(k.open())
		k.parallel(10, func(g int) {
			for i := range 5 {
				k.add(sub, k.channel(fmt.Sprint("ch", g, "-", i)), k.channel("common"))
			}
			k.remove(sub, k.channel(fmt.Sprint("ch", g, "-", 0)))
		})
		for g := range 10 {
			ch := k.channel(fmt.Sprint("ch", g, "-", 4))
			k.publish(k.channel(fmt.Sprint("ch", g, "-", 0)), "removed")
			k.publish(ch, "x")
			k.receive(sub, ch, "x")
		}
	}},
	{name: "Subscribe/OneConnection", needs: needs{subscriber: true}, run: func(k *kit) {
		conn := k.warm()
		sub := k.subscribe(conn, k.channel("a"))
		for i := range 20 {
			k.add(sub, k.channel(fmt.Sprint(i)))
		}
		used := map[int]bool{}
		for _, r := range k.wire.Requests(wire.Match{Name: "SUBSCRIBE", Arg: k.prefix}) {
			used[r.Conn] = true
		}
		if len(used) != 1 {
			k.Fatalf("a Subscription with 21 channels uses %d connections; want one", len(used))
		}
		// and it does not take the commands' connection away.
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
		_ = k.shut(sub)
		for c := range used {
			if !k.eventually(k.time.settle, func() bool { return !k.wire.IsOpen(c) }) {
				k.Errorf("the connection of a closed Subscription is still open")
			}
		}
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
	}},
	{name: "Subscribe/PoolSize", needs: needs{subscriber: true}, run: func(k *kit) {
		// PoolSize is for the commands. A Subscription lives for as long as the client: a driver that
		// takes one of the commands' connections for it leaves them none if there is only one.
		conn := k.warm(func(c *driver.Config) { c.PoolSize = 1 })
		sub := k.subscribe(conn, k.channel("a"))
		k.reply(conn, plain("ECHO", k.prefix), k.prefix)
		k.publish(k.channel("a"), "x")
		k.receive(sub, k.channel("a"), "x")
	}},
	{name: "Subscribe/Two", needs: needs{subscriber: true}, run: func(k *kit) {
		conn := k.open()
		a, b := k.subscribe(conn, k.channel("x")), k.subscribe(conn, k.channel("x"))
		k.publish(k.channel("x"), "both")
		k.receive(a, k.channel("x"), "both")
		k.receive(b, k.channel("x"), "both")
		_ = k.shut(a)
		k.publish(k.channel("x"), "the other")
		k.receive(b, k.channel("x"), "the other")
	}},
	{name: "Subscribe/Two/Remove", needs: needs{subscriber: true}, run: func(k *kit) {
		// What one Subscription removes the other keeps.
		conn := k.open()
		a, b := k.subscribe(conn, k.channel("x")), k.subscribe(conn, k.channel("x"))
		k.remove(a, k.channel("x"))
		k.publish(k.channel("x"), "the other")
		k.receive(b, k.channel("x"), "the other")
	}},
	{name: "Subscribe/TLS", needs: needs{subscriber: true}, run: func(k *kit) {
		// The connection of a Subscription is encrypted as the connections of commands are.
		server := k.eavesdrop()
		c := k.connector(server.edit, encrypted)
		ctx, cancel := k.within(k.time.bound)
		defer cancel()
		conn, err := c.Connect(ctx)
		k.checkText(err)
		if err == nil {
			k.closeLater(conn)
			var sub driver.Subscription
			if sub, err = k.subscription(ctx, conn); err == nil {
				short, cancel := k.within(k.time.short)
				defer cancel()
				err = sub.Add(short, k.channel("a"))
				k.checkText(err)
			}
		}
		if err == nil {
			k.Errorf("Add succeeded although the TLS handshake fails")
		}
		server.heardTLS(err)
	}},
	{name: "Subscribe/Unix", needs: needs{subscriber: true}, run: func(k *kit) {
		// The connection of a Subscription leads where the connections of commands lead: otherwise
		// nobody would notice that waiters poll.
		sub := k.subscribe(k.open(k.unixSocket()), k.channel("a"))
		k.publish(k.channel("a"), "x")
		k.receive(sub, k.channel("a"), "x")
	}},
	{name: "Subscribe/Username", needs: needs{subscriber: true}, run: func(k *kit) {
		// The connection of a Subscription is the same user's as the connections of commands.
		sub := k.subscribe(k.open(k.user("on", "~*", "&*", "+@all")), k.channel("a"))
		k.publish(k.channel("a"), "x")
		k.receive(sub, k.channel("a"), "x")
	}},
	{name: "Subscribe/NoPerm", needs: needs{subscriber: true}, run: func(k *kit) {
		k.wire.On(wire.Match{Name: "SUBSCRIBE", Arg: k.channel("forbidden"), Times: -1}, wire.Answer("-NOPERM No permissions to access a channel\r\n"))
		sub := k.subscribe(k.open())
		k.add(sub, k.channel("allowed"))
		ctx, cancel := k.within(k.time.settle)
		defer cancel()
		err := sub.Add(ctx, k.channel("forbidden"))
		k.checkText(err)
		if e, ok := errors.AsType[*driver.ServerError](err); !ok || e.Code != "NOPERM" {
			k.Errorf("Add of a forbidden channel gave %v (%T); want the *driver.ServerError NOPERM", err, err)
		}
		k.publish(k.channel("allowed"), "x")
		for {
			m, err := k.next(sub, k.time.settle)
			if err != nil && !errors.Is(err, driver.ErrGap) {
				k.Fatalf("after NOPERM for one channel Receive gives %v", err)
			}
			if m.Payload == "x" {
				return
			}
			k.publish(k.channel("allowed"), "x")
		}
	}},
}
