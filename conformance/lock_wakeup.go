package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockWakeUpCases: a lock that becomes free is granted soon. Patient waiters show
// what messages alone do.
var lockWakeUpCases = []testCase{
	lockCase("WakeUp/Expiry", needs{}, func(k *lockKit) {
		// The holder crashed. It delays the others by its TTL and no more.
		var all sync.WaitGroup
		for what, crash := range map[string]func(name string){
			"ours": func(name string) {
				k.take(k.client().Mutex(name, locker.TTL(k.times.ttl), locker.NoRenewal()))
			},
			"foreign": func(name string) {
				k.direct("SET", name, "crashed", "PX", fmt.Sprint(k.times.ttl.Milliseconds()))
			},
		} {
			all.Go(func() {
				name := k.key(what)
				crash(name)
				dead := time.Now().Add(k.left(name))
				g := k.later(k.ctx, k.client().Mutex(name, k.patient()))
				l := k.granted(g, k.times.ttl+k.times.grant, "a waiter whose holder ("+what+") crashed")
				if early := dead.Sub(g.at); early > 10*time.Millisecond {
					k.Errorf("the waiter had the lock %v before its holder's TTL ended", early)
				}
				k.unlock(l)
			})
		}
		all.Wait()
	}),
	lockCase("WakeUp/LostMessage", needs{}, func(k *lockKit) {
		// The lock becomes free and nobody tells the waiter. Its poll finds out.
		name := k.key("lock")
		k.take(k.client().Mutex(name, locker.TTL(k.times.long)))
		g := k.later(k.ctx, k.client().Mutex(name))
		k.waiters(name, 1)
		k.direct("DEL", name)
		k.unlock(k.granted(g, k.times.poll+k.times.grant, "a waiter that got no message"))
	}),
	lockCase("WakeUp/Gap", needs{subscriber: true}, func(k *lockKit) {
		// The message falls into a time without subscription. After the gap
		// everybody looks.
		name := k.key("lock")
		held := k.take(k.undisturbed().Mutex(name, locker.TTL(k.times.long)))
		w := k.newWire()
		g := k.later(k.ctx, k.clientVia(w).Mutex(name, k.patient()))
		k.waiters(name, 1)
		w.Refuse(true)
		w.KillAll()
		time.Sleep(k.time.short)
		k.unlock(held)
		time.Sleep(k.time.short)
		w.Refuse(false)
		k.unlock(k.granted(g, k.time.settle, "a waiter whose subscription was away for a while"))
	}),
	lockCase("WakeUp/BlackHole", needs{subscriber: true}, func(k *lockKit) {
		// All connections are dead and nothing shows it. The driver notices in time
		// and listens again.
		if k.realTime() {
			k.Skipf("this takes %v in real time", maxSilence)
		}
		name := k.key("lock")
		held := k.take(k.undisturbed().Mutex(name, locker.TTL(k.times.long)))
		w := k.newWire()
		// Somewhat later the core would notice, too, by a message to itself.
		w.On(wire.Match{Name: "PUBLISH", Times: -1}, wire.Answer("-NOPERM this user has no permissions to run the 'publish' command\r\n"))
		g := k.later(k.ctx, k.clientVia(w).Mutex(name, k.patient()))
		k.waiters(name, 1)
		w.Mute()
		time.Sleep(maxSilence + k.time.settle)
		k.unlock(held)
		k.unlock(k.granted(g, k.times.grant, "a waiter whose subscription was dead for a while"))
	}),
	lockCase("WakeUp/PollOnly", needs{}, func(k *lockKit) {
		// Through a Conn without any optional interface waiters poll, at
		// intervals of up to 256 ms.
		name := k.key("lock")
		c := k.clientOn(plainConnector{k.connector()})
		held := k.take(k.undisturbed().Mutex(name, locker.TTL(k.times.long)))
		g := k.later(k.ctx, c.Mutex(name))
		time.Sleep(k.times.poll)
		n := k.sent(name)
		if n < 3 || n > 100 {
			k.Errorf("a waiter that polls sent %d commands in %v", n, k.times.poll)
		}
		k.unlock(held)
		k.unlock(k.granted(g, 256*time.Millisecond+k.times.grant, "a waiter that polls"))
		if n := k.wire.Count(wire.Match{Name: "SUBSCRIBE"}); n > 0 {
			k.Errorf("SUBSCRIBE was sent by a Conn that is no Subscriber")
		}
	}),
	lockCase("WakeUp/OneConnection", needs{subscriber: true}, func(k *lockKit) {
		// However many wait, one connection listens, and they hardly ask.
		const waiting = 40
		c := k.client()
		holder := k.undisturbed()
		var held []*locker.Lease
		var grants []*grant
		for i := range waiting {
			name := k.key(fmt.Sprint("lock", i))
			held = append(held, k.take(holder.Mutex(name, locker.TTL(k.times.long))))
			grants = append(grants, k.later(k.ctx, c.Mutex(name)))
		}
		k.waiters(held[waiting-1].Name(), 1)
		n := k.sent(k.prefix)
		time.Sleep(k.times.poll)
		if n := k.sent(k.prefix) - n; n > 3*waiting {
			k.Errorf("%d waiters sent %d commands in %v; want about one each", waiting, n, k.times.poll)
		}
		for i, l := range held {
			k.unlock(l)
			k.unlock(k.granted(grants[i], k.times.poll+k.times.grant, "one of many waiters"))
		}
		on := map[int]int{}
		for _, r := range k.wire.Requests(wire.Match{Name: "SUBSCRIBE"}) {
			on[r.Conn]++
		}
		if len(on) != 1 {
			k.Errorf("the waiters of one client subscribed on %d connections; want 1", len(on))
		}
		for _, channels := range on {
			if channels > 2 {
				k.Errorf("%d waiters of one client sent %d SUBSCRIBE; want one channel", waiting, channels)
			}
		}
	}),
}

// patient makes a waiter that hardly tries again by itself. It does so only to keep its
// place in the queue, at intervals far longer than anything here may take.
func (k *lockKit) patient() locker.Option { return locker.Retry(locker.Constant(k.times.never)) }

// A plainConnector makes Conns without optional interfaces.
type plainConnector struct{ driver.Connector }

func (c plainConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return driver.Wrapper{Conn: conn}, nil
}
