package conformance

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A testCase is one clause of the contract. Cases are listed in cases.go.
type testCase struct {
	name  string
	needs needs
	lock  bool // about locks, and not the contract
	run   func(*kit)
}

// needs says where a case can run.
type needs struct {
	batcher, subscriber, describer bool
	realServer                     bool // miniredis lacks the feature
}

type suite struct {
	h Harness
	o options
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
	} else {
		s.guard(t, k)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r := Result{Case: c.name, Failures: k.failures, Elapsed: time.Since(start)}
	known, isKnown := s.h.known(c.name)
	r.Known = known
	switch {
	case len(k.failures) > 0 && isKnown:
		r.Status = Known
	case len(k.failures) > 0:
		r.Status = Failed
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
	case n.describer && !has.Describer:
		return "the driver has no Describer"
	case n.realServer && s.o.addr == "":
		return "miniredis cannot do this; it runs with the option Server"
	case s.o.quorum > 0:
		return s.unfitForQuorum(c.name)
	}
	return ""
}

// hardLimit returns the real time after which a case is given up. In a bubble it
// is reached when something spins or waits for a mutex for ever, which a bubble
// cannot see; the longest case takes a few seconds of a processor, which a busy machine
// may not have for long.
func (s *suite) hardLimit() time.Duration {
	if s.realTime() {
		return 3 * time.Minute
	}
	return 90 * time.Second
}

// emptyPools makes clients forget what they keep in a sync.Pool, such as timers:
// what belongs to the bubble of one case must not be used in another one. The
// suite's own tests, whose driver has no pools, switch it off to be fast.
var emptyPools = true

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
				k.Errorf("goroutines are left after Close:\n%s", stacks(k.bubble))
			default:
				k.Errorf("the bubble panicked: %v", p)
			}
		}()
		if emptyPools {
			runtime.GC() // makes what is in a sync.Pool its victims
			runtime.GC() // frees them
		}
		synctest.Test(t, func(*testing.T) {
			k.bubble = bubbleID()
			k.main()
			time.Sleep(linger)
		})
	}()
	limit := s.hardLimit()
	select {
	case <-done:
	case <-time.After(limit):
		k.Errorf("still running after %v of real time: something spins or waits for a mutex\n%s", limit, stacks(k.bubble))
	}
}

// linger is the bubble time that a client has to let its last timers run off.
const linger = 2 * time.Minute

// main is the main goroutine of a case.
func (k *kit) main() {
	if err := k.start(); err != nil {
		k.Errorf("cannot set up the case: %v", err)
	} else {
		k.limit(k.time.budget, "the case", func() { k.testCase.run(k) })
	}
	k.finish()
}

// limit runs f in a goroutine and waits for it. It reports whether f returned.
func (k *kit) limit(d time.Duration, what string, f func()) bool {
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
		return true
	case <-timer.C:
		k.Errorf("%s did not return within %v: a call is blocked for ever\n%s", what, d, stacks(k.bubble))
		return false
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

// stacks returns the goroutines of a bubble, the suite's own left out, or a note
// outside of one.
func stacks(bubble string) string {
	if bubble == "" {
		return ""
	}
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var list []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		inBubble := strings.Contains(head, bubble+"]") || strings.Contains(head, bubble+",")
		own := strings.Contains(g, "conformance/wire.(*") || strings.Contains(g, "alicebob/miniredis") ||
			strings.Contains(g, "conformance.(*kit).main(") || strings.Contains(g, "internal/synctest.Run(")
		if inBubble && !own {
			list = append(list, g)
		}
	}
	if len(list) > 8 {
		list = append(list[:8], fmt.Sprintf("… and %d more", len(list)-8))
	}
	return strings.Join(list, "\n\n")
}
