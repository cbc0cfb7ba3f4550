package conformance

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A lockKit is a kit for the lock level: the library's own clients on connectors
// of the driver under test. A lock is named by the key that it is, see kit.key.
type lockKit struct {
	*kit
	times  lockTiming
	aside  *wire.Wire     // a way to the server that no case disturbs
	admin  *locker.Client // goes there
	adminM sync.Mutex
}

// lockTiming holds the times of lock cases, besides those of the kit.
type lockTiming struct {
	ttl    time.Duration // of a lease that is renewed, or runs out, within a case
	long   time.Duration // of a lease that does neither
	never  time.Duration // a pause between attempts that no case outlasts
	poll   time.Duration // the longest pause of a waiter with the default policy
	grant  time.Duration // what a grant may take that nobody has to wait for
	prompt time.Duration // within which a call returns when its ctx ends
	late   time.Duration // how late a lease's context may end
	place  time.Duration // what a waiter that died costs those behind it at most
}

var (
	bubbleLockTiming = lockTiming{
		ttl: 900 * time.Millisecond, long: 10 * time.Minute, never: time.Hour, poll: time.Second,
		grant: 100 * time.Millisecond, prompt: 50 * time.Millisecond, late: 20 * time.Millisecond, place: 4 * time.Second,
	}
	realLockTiming = lockTiming{
		ttl: 2 * time.Second, long: 10 * time.Minute, never: time.Hour, poll: time.Second,
		grant: 2 * time.Second, prompt: 2 * time.Second, late: time.Second, place: 4 * time.Second,
	}
)

// lockCase makes a case of the level "Lock".
func lockCase(name string, n needs, run func(*lockKit)) testCase {
	return levelCase("Lock/"+name, n, run)
}

// levelCase makes a case of one of the levels at which locks are tested.
func levelCase(name string, n needs, run func(*lockKit)) testCase {
	return testCase{name: name, needs: n, lock: true, run: func(k *kit) {
		lk := &lockKit{kit: k, times: bubbleLockTiming}
		if k.realTime() {
			lk.times = realLockTiming
		}
		if k.server.memory == nil {
			k.cleanup(lk.sweep)
		}
		if k.o.quorum > 0 {
			lk.bootstrap()
		}
		run(lk)
	}}
}

// lockCases is the level "Lock": locks keep their promises through this driver. The
// clauses are those of a mutex, and what all kinds of lock have in common.
var lockCases = slices.Concat(
	lockMutexCases,
	lockRequestCases,
	lockNameCases,
	lockErrorCases,
	lockWatchdogCases,
	lockLossCases,
	lockWakeUpCases,
	lockQueueCases,
	lockLineCases,
	lockGrantCases,
	lockFencingCases,
	lockHandoverCases,
	lockCloseCases,
	lockChaosCases,
	lockServerCases,
)

// sweep deletes what the case left on a real server. Keys beside the records are
// the core's own business, so they are found by the prefix of the case.
func (k *lockKit) sweep() {
	for _, key := range k.stored() {
		_, _ = k.server.do("DEL", key)
	}
}

// stored returns all keys of this case on the server.
func (k *lockKit) stored() []string {
	var keys []string
	for _, node := range k.server.nodes() {
		for cursor := "0"; ; {
			v, err := node.do("SCAN", cursor, "MATCH", "*"+k.prefix[len("conformance:"):]+"*", "COUNT", "1000")
			list, _ := v.([]any)
			if len(list) != 2 {
				k.Fatalf("SCAN gave %v, %v", v, err)
			}
			found, _ := list[1].([]any)
			for _, key := range found {
				keys = append(keys, key.(string))
			}
			if cursor, _ = list[0].(string); cursor == "0" {
				break
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// waitEmpty waits until the server has no key of this case except those for
// which keep reports true. It does not wait for a TTL.
func (k *lockKit) waitEmpty(what string, keep func(key string) bool) {
	var left []string
	if !k.eventually(k.times.grant, func() bool {
		left = k.stored()
		if keep != nil {
			left = slices.DeleteFunc(left, keep)
		}
		return len(left) == 0
	}) {
		k.Errorf("%s left %d keys on the server: %q", what, len(left), left)
	}
}

// newWire makes a further way to the server, for a client whose network is
// another one.
func (k *lockKit) newWire() *wire.Wire {
	w := wire.New(k.server.dial)
	k.cleanup(func() { _ = w.Close() })
	return w
}

// via makes a Config lead through w.
func (k *lockKit) via(w *wire.Wire) func(*driver.Config) {
	return func(c *driver.Config) {
		if !k.realTime() {
			c.Dial = w.Dial
			return
		}
		addr, err := w.Listen()
		if err != nil {
			k.Fatalf("%v", err)
		}
		c.Addrs = []string{addr}
	}
}

// client returns a client of the library that is closed at the end of the case.
func (k *lockKit) client(opts ...locker.ClientOption) *locker.Client {
	return k.clientOn(k.connector(), opts...)
}

// clientVia is client through another wire.
func (k *lockKit) clientVia(w *wire.Wire, opts ...locker.ClientOption) *locker.Client {
	return k.clientOn(k.connector(k.via(w)), opts...)
}

func (k *lockKit) clientOn(c driver.Connector, opts ...locker.ClientOption) *locker.Client {
	client, err := k.newClient(c, opts)
	if err != nil {
		k.Fatalf("locker.New: %v", err)
	}
	k.cleanup(func() { k.checkText(client.Close()) })
	return client
}

// undisturbed returns a client whose commands are not seen on k.wire.
func (k *lockKit) undisturbed() *locker.Client {
	k.adminM.Lock()
	defer k.adminM.Unlock()
	if k.admin == nil {
		k.aside = k.newWire()
		k.admin = k.clientVia(k.aside, locker.Label("undisturbed"))
	}
	return k.admin
}

// warm makes the server know the scripts that c uses for a lock with these options,
// so that each further request of c is one command, and c its connection.
func (k *lockKit) warm(c *locker.Client, opts ...locker.Option) {
	m := c.Mutex(k.key("warm "+rand.Text()), append(opts, locker.Fenced(), locker.TTL(k.times.long))...)
	l := k.take(m)
	id, err := l.Detach(k.ctx, k.times.long)
	if err != nil {
		k.Fatalf("Detach gave %v", err)
	}
	if l, err = m.Attach(k.ctx, id); err != nil {
		k.Fatalf("Attach gave %v", err)
	}
	k.unlock(l)
}

// take takes a lock that is free.
func (k *lockKit) take(m *locker.Mutex) *locker.Lease {
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	l, err := m.Lock(ctx)
	k.checkText(err)
	if err != nil {
		k.Fatalf("Lock on a free lock gave %v", err)
	}
	return l
}

// unlock gives up a lease that is held.
func (k *lockKit) unlock(l *locker.Lease) {
	if err := k.tryUnlock(l); err != nil {
		k.Errorf("Unlock of a lock that is held gave %v", err)
	}
}

func (k *lockKit) tryUnlock(l *locker.Lease) error {
	ctx, cancel := k.within(k.time.bound)
	defer cancel()
	err := l.Unlock(ctx)
	k.checkText(err)
	return err
}

// A grant is a call of Lock, or Upgrade, that runs in the background.
type grant struct {
	lease *locker.Lease
	err   error
	at    time.Time
	done  chan struct{}
}

func (k *lockKit) later(ctx context.Context, m *locker.Mutex) *grant {
	return k.inBackground(func() (*locker.Lease, error) { return m.Lock(ctx) })
}

func (k *lockKit) inBackground(lock func() (*locker.Lease, error)) *grant {
	g := &grant{done: make(chan struct{})}
	go func() {
		defer close(g.done)
		g.lease, g.err = lock()
		g.at = time.Now()
		k.checkText(g.err)
	}()
	return g
}

// granted waits for a Lock in the background to succeed.
func (k *lockKit) granted(g *grant, within time.Duration, what string) *locker.Lease {
	k.await(g.done, within, what+" has not been granted the lock")
	if g.err != nil {
		k.Fatalf("%s: Lock gave %v", what, g.err)
	}
	return g.lease
}

// refused waits for a Lock in the background to fail.
func (k *lockKit) refused(g *grant, within time.Duration, what string) error {
	k.await(g.done, within, what+" has not returned")
	if g.err == nil {
		k.Fatalf("%s: Lock succeeded", what)
	}
	return g.err
}

// waiters waits until n waiters stand in the queue of a lock.
func (k *lockKit) waiters(name string, n int) {
	var s locker.Status
	if !k.eventually(k.time.bound, func() bool { s = k.inspect(name); return s.Waiters == n }) {
		k.Fatalf("%d waiters stand in the queue of the lock; want %d", s.Waiters, n)
	}
	time.Sleep(k.time.short / 6) // a waiter that has just begun to listen tries once more
}

// sent returns how many commands with this key were written to k.wire.
func (k *lockKit) sent(name string) int { return k.wire.Count(wire.Match{Arg: name}) }

// wrote returns the names of the commands that are written for f, with those that a driver adds: on the
// connections that f uses, once they have been set up. What a pool writes to other connections, such as
// a handshake or a PING, does not count.
func (k *lockKit) wrote(f func()) []string {
	before := len(k.wire.Requests(wire.Match{}))
	f()
	all := k.wire.Requests(wire.Match{})
	ours := func(r wire.Request) bool {
		return slices.ContainsFunc(r.Args, func(arg string) bool { return strings.Contains(arg, k.prefix) })
	}
	used, ready := map[int]bool{}, map[int]bool{}
	for _, r := range all[before:] {
		used[r.Conn] = used[r.Conn] || ours(r)
	}
	var names []string
	for i, r := range all {
		ready[r.Conn] = ready[r.Conn] || ours(r)
		if i >= before && used[r.Conn] && ready[r.Conn] {
			names = append(names, strings.ToUpper(r.Args[0]))
		}
	}
	return names
}

// modes runs a case for a plain lock, which begins with SET NX, and for a fenced
// one, which begins with a script.
func (k *lockKit) modes(run func(name string, opts ...locker.Option)) {
	run(k.key("plain"))
	run(k.key("fenced"), locker.Fenced())
}

// bothModes is modes with both locks at the same time, for a case that takes long in real time.
func (k *lockKit) bothModes(run func(name string, opts ...locker.Option)) {
	var all sync.WaitGroup
	all.Go(func() { run(k.key("plain")) })
	all.Go(func() { run(k.key("fenced"), locker.Fenced()) })
	all.Wait()
}
