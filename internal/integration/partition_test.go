package integration_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

const (
	partitionTTL = 900 * time.Millisecond
	atOnce       = 50 // rounds that run at the same time
	repeats      = 3  // of a round at the most
	// timerMargin is by how much timers may be late at this TTL.
	timerMargin = 100 * time.Millisecond
)

// rounds is how many partitions each driver goes through.
func rounds() int {
	if testing.Short() {
		return 12
	}
	return 100
}

// rueidislock's first holder learned of a partition a second after the second
// holder began, redislock's after 4.4 seconds.
func TestPartitionFirstHoldersContextEndsBeforeSecondHolderBegins(t *testing.T) {
	eachDriver(t, func(t *testing.T, d driverUnderTest) { testPartition(t, d, rounds()) })
}

// The hogs take the processors from whatever else is tested: no more rounds than run at the same time.
func TestPartitionFirstHoldersContextEndsBeforeSecondHolderBeginsWithCPUHogs(t *testing.T) {
	startHogs(t, 3)
	eachDriver(t, func(t *testing.T, d driverUnderTest) { testPartition(t, d, min(rounds(), atOnce)) })
}

func testPartition(t *testing.T, d driverUnderTest, rounds int) {
	timers := watchTimers(t)
	srv := servertest.Single(t)
	second := d.client(t, srv.Addr, locker.TTL(10*time.Second))
	require.NoError(t, mustLock(t, second.Mutex("warm")).Unlock(soon(t)))
	slots := make(chan struct{}, atOnce)
	leads := make([]time.Duration, rounds)
	var starved atomic.Int64
	var all sync.WaitGroup
	for i := range leads {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			for n := 0; ; n++ {
				lead, ok := partitionRound(t, d, numbered("k", repeats*i+n), i, srv, second)
				if ok {
					leads[i] = lead
					return
				}
				// What was promised supposes that timers are not that late.
				if n == repeats-1 || !timers.late() {
					assert.Fail(t, "two holders", "round %d: the first's context had not ended when the second's Lock returned", i)
					return
				}
				starved.Add(1)
			}
		})
	}
	all.Wait()
	least := leads[0]
	for _, lead := range leads {
		least = min(least, lead)
	}
	t.Logf("%d rounds: the first holder's context ended before the second's Lock returned, at least %v earlier;"+
		" timers were up to %v late; rounds repeated because of that: %d",
		len(leads), least.Round(time.Millisecond), timers.most().Round(time.Millisecond), starved.Load())
}

// partitionRound cuts a holder off and returns how long its context had ended
// when the next one's Lock returned. It returns false if it had not.
func partitionRound(t *testing.T, d driverUnderTest, name string, i int, srv *servertest.Server, second *locker.Client) (lead time.Duration, ok bool) {
	w := wire.New(wire.TCP(srv.Addr))
	defer w.Close()
	addr, err := w.Listen()
	if !assert.NoError(t, err) {
		return 0, true
	}
	first, err := locker.Open(d.name, "redis://"+addr, locker.TTL(partitionTTL))
	if !assert.NoError(t, err) {
		return 0, true
	}
	defer first.Close()
	// Connecting may take longer than requests of the lock below may.
	warm, err := first.Mutex("warm"+name, locker.TTL(patience), locker.AttemptTimeout(patience)).Lock(soon(t))
	if !assert.NoError(t, err) || !assert.NoError(t, warm.Unlock(soon(t))) {
		return 0, true
	}
	lease, err := first.Mutex(name).Lock(soon(t))
	if !assert.NoError(t, err) {
		return 0, true
	}
	ctx := lease.Context()
	ended := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { ended <- time.Now() })

	heal := cutOff(w, i, ctx)
	next := <-goLock(soon(t), second.Mutex(name))
	// The invariant itself. Err comes before Valid, which would end the context.
	stillRunning, stillValid := ctx.Err() == nil, lease.Valid()
	if !assert.NoError(t, next.err) {
		return 0, true
	}
	assert.False(t, stillValid, "round %d: two holders: the first believed to be valid when the second's Lock returned", i)
	assert.ErrorIs(t, context.Cause(ctx), locker.ErrLost)

	// The late holder comes back, and does no harm.
	heal()
	assert.ErrorIs(t, lease.Unlock(soon(t)), locker.ErrTaken, "round %d", i)
	assert.True(t, next.lease.Valid())
	assert.NoError(t, next.lease.Unlock(soon(t)), "round %d: the late holder has deleted the next one's lock", i)
	return next.at.Sub(<-ended), !stillRunning
}

// cutOff separates the clients on w from the server, each time at another moment
// of the renewal cycle, which is a third of the TTL long, and in another way. It
// returns what ends that; all that was held back arrives then.
func cutOff(w *wire.Wire, i int, held context.Context) (heal func()) {
	var rule *wire.Rule
	renewal := wire.Match{Name: "EVALSHA", Skip: i % 3}
	switch i % 5 {
	case 0, 1, 2:
		<-time.After(rand.N(partitionTTL / 3 * 2))
	case 3: // a renewal is sent and does not arrive
		rule = w.On(renewal, wire.HoldRequest)
	case 4: // a renewal arrives and its reply does not
		rule = w.On(renewal, wire.HoldReply)
	}
	if rule != nil {
		select {
		case <-rule.Happened():
		case <-held.Done(): // for want of a CPU it was not renewed before
		}
	}
	w.Partition()
	return func() {
		w.Heal()
		if rule != nil {
			rule.Release()
		}
	}
}

// A timerWatch notices that this process did not get a CPU. Then the context of a
// lease ends too late, whatever the code; Valid is right all the same.
type timerWatch struct {
	mu    sync.Mutex
	due   time.Time     // of the timer that runs
	last  time.Time     // when a timer was last late by nearly the margin
	worst time.Duration // by how much one was late
}

func watchTimers(t *testing.T) *timerWatch {
	w := &timerWatch{}
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		const step = 5 * time.Millisecond
		for {
			w.await(time.Now().Add(step))
			select {
			case <-time.After(step):
				w.note()
			case <-done:
				return
			}
		}
	}()
	return w
}

func (w *timerWatch) await(due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = due
}

// note looks at how late the timer is, which may not have got a CPU yet.
func (w *timerWatch) note() {
	w.mu.Lock()
	defer w.mu.Unlock()
	late := time.Since(w.due)
	w.worst = max(w.worst, late)
	if late > timerMargin*3/4 {
		w.last = time.Now()
	}
}

// most tells by how much a timer was late at the most.
func (w *timerWatch) most() time.Duration {
	w.note()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.worst
}

// late tells whether a timer was late within the last second.
func (w *timerWatch) late() bool {
	w.note()
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last) < time.Second
}
