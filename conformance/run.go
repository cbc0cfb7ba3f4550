package conformance

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A testCase is one clause of the contract. Cases are listed in cases.go.
type testCase struct {
	name  string
	needs needs
	lock  bool // it is about locks, and not about the contract of drivers
	run   func(*kit)
}

// needs says where a case can run.
type needs struct {
	batcher, subscriber, listener, describer bool
	realServer                               bool // miniredis lacks the feature
}

type suite struct {
	h Harness
	o options

	checked  bool // that there is anything to test; see suite.barred
	over     bar  // for all cases
	panicked bar  // for the cases about locks

	mu sync.Mutex // guards over and panicked
}

// A bar is why cases do not run any more.
type bar struct {
	why  string
	told bool // by a case that has failed
}

// bar keeps further cases from running, and returns why.
func (s *suite) bar(b *bar, format string, args ...any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.why == "" {
		b.why = fmt.Sprintf(format, args...)
	}
	return b.why
}

// barred tells why a case does not run, and whether nobody has been told that yet. The
// first of all cases finds out whether there is anything to test, and is run even where
// only other cases have been selected.
func (s *suite) barred(t *testing.T, c testCase) (why string, news bool) {
	if first := capabilityCases[0]; !s.checked && c.name != first.name {
		s.guard(t, newKit(s, first))
	}
	s.checked = true
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &s.over
	if b.why == "" && c.lock {
		b = &s.panicked
	}
	news = !b.told
	b.told = true
	return b.why, news
}

// tell notes that a case has failed because of what bars others.
func (s *suite) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range []*bar{&s.over, &s.panicked} {
		b.told = b.why != ""
	}
}

func newSuite(h Harness, opts []Option) *suite {
	s := &suite{h: h}
	for _, opt := range opts {
		opt(&s.o)
	}
	return s
}

func (s *suite) cases() []testCase {
	var list []testCase
	for _, c := range allCases() {
		if s.o.selects(c.name) && (c.lock || s.o.quorum == 0) {
			list = append(list, c)
		}
	}
	return list
}

// validate returns an error if the suite would not be what was asked for. A clause
// that selects nothing is a slip: the run would pass without it.
func (s *suite) validate() error {
	if err := s.h.validate(); err != nil {
		return err
	}
	cases := s.cases()
	for _, clause := range s.o.only {
		if !slices.ContainsFunc(cases, func(c testCase) bool { return covers(clause, c.name) }) {
			return fmt.Errorf("conformance: the clause %q of Only selects no case; see Cases (Quorum has those about locks alone)", clause)
		}
	}
	if s.o.addr != "" {
		return s.askServer()
	}
	return nil
}

// askServer returns an error if the server does not answer. Otherwise each case would wait for the
// server, and say so.
func (s *suite) askServer() error {
	srv, err := startServer(s, "", new(atomic.Int64))
	if err != nil {
		return err
	}
	defer srv.close(nil)
	v, err := srv.do("PING")
	if err != nil {
		return fmt.Errorf("conformance: PING at the server %s: %w", s.o.addr, err)
	}
	if refusal, ok := v.(*driver.ServerError); ok && refusal.Code == "NOAUTH" {
		return fmt.Errorf("conformance: the server %s wants authentication, see Auth: %w", s.o.addr, refusal)
	}
	return nil
}

// realTime reports whether cases run outside a bubble: sockets are not allowed
// inside.
func (s *suite) realTime() bool { return s.o.addr != "" || s.h.TCPOnly }

// run runs one case and judges it.
func (s *suite) run(t *testing.T, c testCase) Result {
	start := time.Now()
	k := newKit(s, c)
	if why := s.missing(c); why != "" {
		k.skip = why
	} else if why, news := s.barred(t, c); why == "" {
		s.guard(t, k)
	} else if news {
		k.Errorf("%s", why)
	} else {
		k.skip = why
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := Result{Case: c.name, Failures: k.complaints(), Elapsed: time.Since(start)}
	known, isKnown := s.h.known(c.name)
	r.Known = known
	switch {
	case len(k.failures) > 0 && isKnown && !k.grave:
		r.Status = Known
	case len(k.failures) > 0:
		r.Status = Failed
		s.tell()
	case k.skip != "":
		r.Status, r.Failures = Skipped, []string{k.skip}
	case isKnown:
		r.Status = Stale
	}
	return r
}

func (s *suite) missing(c testCase) string {
	n, has := c.needs, s.h.Capabilities
	switch {
	case n.batcher && !has.Batcher:
		return "the driver has no Batcher"
	case n.subscriber && !has.Subscriber:
		return "the driver has no Subscriber"
	case n.listener && !has.Listener:
		return "the driver has no Listener"
	case n.describer && !has.Describer:
		return "the driver has no Describer"
	case n.realServer && s.o.addr == "":
		return "miniredis cannot do this; it runs with the option Server"
	case s.o.quorum > 0:
		return s.unfitForQuorum(c.name)
	}
	return ""
}

// hardLimit returns the real time after which a case is given up. The longest case takes a few
// seconds of a processor, which a busy machine may take long to give it.
func (s *suite) hardLimit() time.Duration {
	if s.realTime() {
		return 3 * time.Minute
	}
	return 90 * time.Second
}

// standstill is the real time for which nothing may happen in a bubble: its clock does not
// move, and nothing is said to a server. It is counted in looks, since a process that gets no
// processor takes fewer of them.
const standstill, look = 10 * time.Second, 100 * time.Millisecond

// farewell is how long before the end of go test's time a case is given up. If go test itself ends
// a run, it shows nothing of it but goroutines.
const farewell = 3 * time.Second

// watch waits for the end of a case, and gives it up when it takes too long.
func (s *suite) watch(t *testing.T, k *kit, done <-chan struct{}) {
	limit := time.After(s.hardLimit())
	var end <-chan time.Time
	if at, ok := t.Deadline(); ok {
		end = time.After(time.Until(at) - farewell)
	}
	looks := time.NewTicker(look)
	defer looks.Stop()
	last, still := k.moved.Load(), time.Duration(0)
	for {
		select {
		case <-done:
			return
		case <-limit:
			k.Errorf("still running after %v of real time: a call is blocked or something spins\n%s", s.hardLimit(), k.stacks())
			return
		case <-end:
			why := s.bar(&s.over, "go test's time is over in the case %s, and no other is run: give it more, such as -timeout 30m. "+
				"The more a driver fails the longer the suite takes, most of all in real time", k.testCase.name)
			k.Errorf("%s\n%s", why, k.stacks())
			return
		case <-looks.C:
		}
		if s.realTime() {
			continue
		}
		if now := k.moved.Load(); now != last {
			last, still = now, 0
			continue
		}
		if still += look; still < standstill {
			continue
		}
		why := s.bar(&s.over, "the case %s has stood still for %v of real time, and no other is run: something spins, or waits for a "+
			"sync.Mutex whose holder waits for the network or for a timer. Cases have a clock of their own (testing/synctest), "+
			"which does not move while a goroutine runs or waits for a mutex. If that is how the client works, set "+
			"Harness.TCPOnly, and cases run in real time", k.testCase.name, standstill)
		k.Errorf("%s\n%s", why, k.stacks())
		return
	}
}

// emptyPools makes clients forget what they keep in a sync.Pool, such as timers:
// what belongs to the bubble of one case must not be used in another one. The
// suite's own tests, whose driver has no pools, switch it off to be fast.
var emptyPools = true

// meetResolver has package net make what it looks up names with, unless that is done already. A part of
// that is a channel. It would belong to the bubble of the first case whose client looks up a name, be it
// the path of a socket, and would end the program in the next case.
var meetResolver = sync.OnceFunc(func() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = net.DefaultResolver.LookupHost(ctx, "localhost")
})

// guard runs a case so that nothing it does can end the test: a panic, a call
// that never returns and a goroutine left behind are failures of the case.
func (s *suite) guard(t *testing.T, k *kit) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.realTime() {
			k.main()
			return
		}
		defer func() {
			switch p := recover(); {
			case p == nil || k.failed():
			case strings.Contains(fmt.Sprint(p), "deadlock"):
				// This is how a bubble tells that goroutines are left in it.
				k.Errorf("goroutines are left after Close:\n%s", k.stacks())
			default:
				k.Errorf("the bubble panicked: %v", p)
			}
		}()
		if emptyPools {
			runtime.GC() // makes what is in a sync.Pool its victims
			runtime.GC() // frees them
		}
		meetResolver()
		synctest.Test(t, func(*testing.T) {
			k.bubble.Store(bubbleID())
			over := make(chan struct{})
			go k.beat(over)
			k.main()
			time.Sleep(linger)
			close(over)
		})
	}()
	s.watch(t, k, done)
}

// linger is the bubble time that a client has to let its last timers run off.
const linger = 2 * time.Minute

// beat shows that the clock of a bubble moves.
func (k *kit) beat(over <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			k.moved.Add(1)
		case <-over:
			return
		}
	}
}

// main is the main goroutine of a case.
func (k *kit) main() {
	if err := k.start(); err != nil {
		k.Errorf("cannot set up the case: %v", err)
	} else {
		k.limit(k.time.budget, "the case", func() { k.testCase.run(k) })
	}
	k.finish()
}

// limit runs f in a goroutine and waits for it. That f does not return is a fault.
func (k *kit) limit(d time.Duration, what string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer k.recover(what)
		f()
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		k.Errorf("%s did not return within %v: a call is blocked for ever\n%s", what, d, k.stacks())
	}
}

var bubbleInHeader = regexp.MustCompile(`^goroutine \d+ \[[^\]]*(synctest bubble \d+)[^\]]*\]`)

// bubbleID returns how stack traces name the bubble of the calling goroutine.
func bubbleID() string {
	buf := make([]byte, 1<<10)
	buf = buf[:runtime.Stack(buf, false)]
	if m := bubbleInHeader.FindSubmatch(buf); m != nil {
		return string(m[1])
	}
	return ""
}

// stacks returns the goroutines of the case's bubble, the suite's own left out. Outside of a bubble
// nobody knows whose a goroutine is: there it returns those in which the suite has made a call.
func (k *kit) stacks() string {
	bubble, _ := k.bubble.Load().(string)
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var list []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		ours := strings.Contains(head, bubble+"]") || strings.Contains(head, bubble+",")
		if bubble == "" {
			ours = strings.Contains(g, "golocker/conformance.") && !strings.Contains(g, "testing.tRunner(")
		}
		own := strings.Contains(g, "conformance/wire.(*") || strings.Contains(g, "alicebob/miniredis") ||
			strings.Contains(g, "conformance.(*kit).main(") || strings.Contains(g, "conformance.(*kit).beat(") || strings.Contains(g, "internal/synctest.Run(")
		if ours && !own {
			list = append(list, g)
		}
	}
	if len(list) > 8 {
		list = append(list[:8], fmt.Sprintf("… and %d more", len(list)-8))
	}
	return strings.Join(list, "\n\n")
}
