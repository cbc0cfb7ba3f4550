package check_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/check"
	"github.com/golocker/golocker/internal/robustness/history"
)

const (
	toyWorkers = 30
	toyLocks   = 10
	// A play lasts for toyPlay at least, and then until there were toyOperations, but no
	// longer than toyLongest.
	toyPlay       = 3 * time.Second
	toyOperations = 600
	toyLongest    = 6 * time.Second
	// toyPatience is for how long a busy machine may hold up a process.
	toyPatience = 1500 * time.Millisecond
	toyLead     = time.Second
	// A hold-up of toyStall is put down as a fault, so that it is not the lock's; a small
	// one only where the lock is not to be accused.
	toyStall, smallStall = time.Second, 250 * time.Millisecond
)

// A stage is where a toy is played with: workers, what guards the locks' names, and the
// histories.
type stage struct {
	*toy
	names []string
	stall time.Duration

	mu     sync.Mutex
	tokens map[string]uint64 // what the resource has seen
}

// mode draws what a lock is asked for: every other one is for reading and writing.
func (w *toyWorker) mode(name string) history.Mode {
	switch {
	case (name[len(name)-1]-'0')%2 == 0:
		return history.Fenced
	case w.oneIn(3):
		return history.Write
	}
	return history.Read
}

// play lets workers use the toy for a while, each as a process of its own, and returns what
// the checkers say.
func play(t *testing.T, client *redis.Client, f flaw, prefix string, seed uint64) *check.Report {
	t.Helper()
	dir := t.TempDir()
	s := &stage{toy: newToy(t, client, f), stall: toyStall, tokens: map[string]uint64{}}
	if f == (flaw{}) {
		s.stall = smallStall
	}
	for i := range toyLocks {
		s.names = append(s.names, fmt.Sprintf("%s-%d", prefix, i))
	}
	log := func(name string) (*history.Log, string) {
		path := filepath.Join(dir, name)
		l, err := history.Create(path)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l, path
	}
	parent, path := log("parent")
	files := []string{path}
	sampling, stop := context.WithCancel(t.Context())
	defer stop()
	var workers, sampler sync.WaitGroup
	sampler.Go(func() { s.sample(sampling, parent) })
	begun, operations := time.Now(), atomic.Int64{}
	goesOn := func() bool {
		since := time.Since(begun)
		return since < toyPlay || since < toyLongest && operations.Load() < toyOperations
	}
	for i := range toyWorkers {
		name := "w" + strings.Repeat("1", i%8) + strings.Repeat("0", i/8) // so that each begins like those before
		l, path := log(name)
		files = append(files, path)
		w := &toyWorker{stage: s, name: name, log: l, line: line{s.toy, rand.New(rand.NewPCG(seed, uint64(i)))}}
		workers.Go(func() {
			for goesOn() {
				w.operate()
				operations.Add(1)
				time.Sleep(time.Duration(w.rand.Int64N(int64(4 * time.Millisecond))))
			}
		})
	}
	workers.Wait()
	s.probe(parent)
	stop()
	sampler.Wait()
	report, err := check.Round{
		Files: files, LongestTTL: toyTTL, Margin: toyMargin, Poll: toyPoll, Patience: toyPatience, Lead: toyLead, Ordered: true, LeastOperations: toyWorkers,
		Effects: map[string]check.Effect{stall: {Breaks: map[history.Law]string{history.Liveness: "the machine is busy"}}},
	}.Run()
	require.NoError(t, err)
	return report
}

// stall is the fault that the machine had no time for the test.
const stall = "stall"

// sample looks for keys without a TTL. It notes when the machine is too busy for the test,
// in which time nothing is too late.
func (s *stage) sample(ctx context.Context, log *history.Log) {
	for last := history.Now(); ; {
		e := history.Event{Since: history.Now(), What: history.Sampled}
		if e.Since.Sub(last) > s.stall {
			_ = log.Add(history.Event{At: last, What: history.Injected, Fault: stall})
			_ = log.Add(history.Event{At: e.Since, What: history.Healed, Fault: stall})
		}
		last = e.Since
		for _, name := range s.names {
			for _, key := range []string{name, name + ":fence", name + ":queue"} {
				ttl, err := s.client.PTTL(ctx, key).Result()
				if ctx.Err() != nil {
					return
				}
				e.Keys++
				if err == nil && ttl == -1 {
					e.Immortal = append(e.Immortal, key)
				}
			}
		}
		e.At = history.Now()
		_ = log.Add(e)
		time.Sleep(10 * time.Millisecond)
	}
}

// probe takes each lock once more.
func (s *stage) probe(log *history.Log) {
	var all sync.WaitGroup
	for i, name := range s.names {
		l := line{s.toy, rand.New(rand.NewPCG(0, uint64(i)))}
		all.Go(func() {
			e := history.Event{Since: history.Now(), What: history.Probed, Name: name}
			var lease *toyLease
			err := errUnknown
			for errors.Is(err, errUnknown) {
				lease, err = l.lock(name, fmt.Sprintf("probe-%d", i), "w", false)
			}
			if err == nil {
				lease.giveUp()
			} else {
				e.Error = err.Error()
			}
			e.At = history.Now()
			_ = log.Add(e)
		})
	}
	all.Wait()
}

// write is what the resource says to a write with that token.
func (s *stage) write(name string, token uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.tokens[name] {
		return false
	}
	s.tokens[name] = token
	return true
}

// A toyWorker takes one lock after the other.
type toyWorker struct {
	*stage
	line
	name  string
	log   *history.Log
	op    int
	event history.Event // what all events of an operation have in common
}

func (w *toyWorker) note(what history.What, fill func(*history.Event)) {
	e := w.event
	e.What, e.At = what, history.Now()
	if fill != nil {
		fill(&e)
	}
	_ = w.log.Add(e)
}

func (w *toyWorker) operate() {
	w.op++
	name := w.names[w.rand.IntN(len(w.names))]
	if w.oneIn(3) {
		name = w.names[w.rand.IntN(2)] // is wanted by many
	}
	mode := w.mode(name)
	w.event = history.Event{Worker: w.name, Op: w.op, Name: name, Mode: mode, Try: w.oneIn(3)}
	how := "w"
	if mode == history.Read {
		how = "r"
	}
	w.note(history.Asked, nil)
	id := fmt.Sprintf("%s-%d", w.name, w.op)
	lease, err := w.lock(name, id, how, w.event.Try)
	switch {
	case errors.Is(err, errLocked):
		w.note(history.Refused, nil)
		return
	case errors.Is(err, errCrash):
		return
	case err != nil:
		w.note(history.Failed, func(e *history.Event) { e.Class, e.Error = history.Unknown, err.Error() })
		return
	}
	w.note(history.Granted, func(e *history.Event) { e.Token, e.Deadline = lease.token, lease.until() })
	w.use(lease)
	if w.oneIn(40) {
		// It is left to lapse.
		for begun := time.Now(); w.look(lease) && time.Since(begun) < 2*toyTTL; {
			time.Sleep(toyPoll)
		}
		return
	}
	w.note(history.Unlocking, nil)
	err = lease.unlock()
	w.note(history.Unlocked, func(e *history.Event) {
		if err != nil {
			e.Error, e.Class = err.Error(), history.Unknown
		}
		if errors.Is(err, errGone) {
			e.Class = history.Lost
		}
	})
}

// use holds the lock for a moment, or for longer than a lease, or sleeps through it.
func (w *toyWorker) use(lease *toyLease) {
	hold := time.Duration(w.rand.Int64N(int64(8 * time.Millisecond)))
	if w.oneIn(25) {
		hold = toyTTL + time.Duration(w.rand.Int64N(int64(toyTTL)))
	}
	if w.oneIn(40) {
		time.Sleep(2 * toyTTL)
	}
	for begun := time.Now(); w.look(lease); lease.keep() {
		if w.event.Mode != history.Read {
			since, accepted := history.Now(), w.write(w.event.Name, lease.token)
			w.note(history.Wrote, func(e *history.Event) { e.Since, e.Token, e.Accepted = since, lease.token, accepted })
			w.look(lease)
		}
		if time.Since(begun) > hold {
			return
		}
		time.Sleep(min(hold, toyPoll))
	}
}

func (w *toyWorker) look(lease *toyLease) bool {
	since := history.Now()
	if err := lease.err(); err != nil {
		w.note(history.Ended, func(e *history.Event) { e.Class, e.Error = history.Lost, err.Error() })
		return false
	}
	w.note(history.Used, func(e *history.Event) {
		if e.Since = since; !lease.ignoresDeadline {
			e.Deadline = lease.until()
		}
	})
	return true
}
