package locker

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// sharded is a connector whose Conns batch in parallel, as a Cluster's do.
type sharded struct{ *fakeDeployment }

func (s sharded) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.fakeDeployment.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &shardConn{c.(*fakeConn)}, nil
}

type shardConn struct{ *fakeConn }

func (c *shardConn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	rs := make([]driver.Result, len(cmds))
	var wg sync.WaitGroup
	for i, cmd := range cmds {
		wg.Go(func() { rs[i].Value, rs[i].Err = c.Do(ctx, cmd) })
	}
	wg.Wait()
	return rs
}

func (c *shardConn) Describe(context.Context) (driver.Topology, error) {
	return driver.Topology{Mode: driver.ModeCluster}, nil
}

// deadShard makes everything about keys with "dead" in their name hang.
func deadShard(f *fakeDeployment) {
	f.set(func() {
		f.before = func(ctx context.Context, cmd driver.Command) error {
			if strings.Contains(cmd.Keys()[0], "dead") {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
	})
}

func TestDeadShardStarvesTheOthers(t *testing.T) {
	withoutRaceDetector(t)
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(sharded{f})
		require.NoError(t, err)
		defer c.Close()
		var good []*Lease
		for i := range 200 {
			l, err := c.Mutex(fmt.Sprint("{good}", i), TTL(10*time.Second)).Lock(t.Context())
			require.NoError(t, err)
			good = append(good, l)
			_, err = c.Mutex(fmt.Sprint("{dead}", i), TTL(10*time.Second)).Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(3 * time.Millisecond)
		}
		deadShard(f)
		lost := 0
		time.Sleep(60 * time.Second)
		for _, l := range good {
			if !l.Valid() {
				lost++
			}
		}
		assert.Zero(t, lost, "leases on the healthy shard lost")
		time.Sleep(time.Minute)
	})
}

func TestCleanupsStarveRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(sharded{f})
		require.NoError(t, err)
		defer c.Close()
		var good []*Lease
		for i := range 10 {
			l, err := c.Mutex(fmt.Sprint("{good}", i), TTL(10*time.Second)).Lock(t.Context())
			require.NoError(t, err)
			good = append(good, l)
		}
		deadShard(f)
		for i := range 600 { // 20 TryLocks a second on the dead shard, each with 100 ms
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				c.Mutex(fmt.Sprint("{dead}", i)).TryLock(ctx)
			}()
			time.Sleep(50 * time.Millisecond)
		}
		lost := 0
		for _, l := range good {
			if !l.Valid() {
				lost++
			}
		}
		assert.Zero(t, lost, "leases on the healthy shard lost")
		time.Sleep(time.Minute)
	})
}

func TestAttemptTimeoutOfRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error {
				select {
				case <-time.After(2500 * time.Millisecond):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		l, err := f.client(t).Mutex("k", TTL(time.Minute), AttemptTimeout(10*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		assert.True(t, l.Valid(), "%v", l.Err())
	})
}

func TestAttemptsSleepBetween(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		require.NoError(t, f.Set("k", record(newID(), millis(time.Second), "dead|")))
		f.SetTTL("k", 500*time.Millisecond)
		begun := time.Now()
		_, err := c.Mutex("k", Retry(Attempts(2, Constant(time.Second)))).Lock(t.Context())
		assert.NoError(t, err, "gave up after %v", time.Since(begun))
	})
}

// The subscription comes up while the waiter sleeps: it asks again, which must not
// use up an attempt of its policy.
func TestSubscriptionIsNoAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		require.NoError(t, f.Set("k", record(newID(), millis(time.Second), "dead|")))
		f.SetTTL("k", 500*time.Millisecond)
		time.AfterFunc(100*time.Millisecond, func() { c.hub.set(true) })
		_, err := c.Mutex("k", Retry(Attempts(2, Constant(time.Second)))).Lock(t.Context())
		assert.NoError(t, err)
	})
}

func TestHugeSleepLeavesImmortalQueue(t *testing.T) {
	for _, d := range []time.Duration{1 << 62, math.MaxInt64} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			held, err := c.Mutex("k", TTL(time.Hour)).Lock(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan struct{})
			w := f.client(t)
			go func() {
				_, err := w.Mutex("k", Retry(Constant(d))).Lock(ctx)
				assert.NoError(t, err)
				close(got)
			}()
			synctest.Wait()
			k := newKeys("k")
			assert.Positive(t, f.TTL(k.queue), "queue without TTL")
			assert.Positive(t, f.TTL(k.entries), "entries without TTL")
			time.Sleep(10 * time.Second)
			begun := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			<-got
			assert.Zero(t, time.Since(begun), "not woken")
		})
	}
}

func deadEntries(f *fakeDeployment, n int, until time.Time) {
	k := newKeys("k")
	for i := range n {
		r := newID()
		f.ZAdd(k.queue, float64(i), r)
		f.HSet(k.entries, r, fmt.Sprintf("gl1|1|0|%d|%d|m|%s|30000|0||__golocker:c:%s|dead|", until.UnixMilli(), i, newID(), newID()))
	}
	f.SetTTL(k.queue, time.Hour)
	f.SetTTL(k.entries, time.Hour)
}

func testWakeBehind(t *testing.T, n int, life time.Duration) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		a, b := f.client(t), f.client(t)
		held, err := a.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		deadEntries(f, n, time.Now().Add(life))
		got := make(chan struct{})
		go func() {
			_, err := b.Mutex("k").Lock(t.Context())
			assert.NoError(t, err)
			close(got)
		}()
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		<-got
		assert.Zero(t, time.Since(begun), "not woken")
	})
}

func TestWakeBehindCrashedWaiters(t *testing.T) { testWakeBehind(t, 16, 7*time.Second) }
func TestWakeBehindExpiredEntries(t *testing.T) { testWakeBehind(t, 16, -time.Hour) }

func TestDeadEntriesGoWhileTheLockStaysHeld(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		a, b := f.client(t), f.client(t)
		_, err := a.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		deadEntries(f, 100, time.Now().Add(7*time.Second))
		k := newKeys("k")
		f.SetTTL(k.queue, 7*time.Second)
		f.SetTTL(k.entries, 7*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.Mutex("k").Lock(ctx)
		time.Sleep(10 * time.Minute)
		s, err := a.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, 1, s.Waiters, "10 minutes later")
	})
}

func TestUnknownExtendThenUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		l, err := f.client(t).Mutex("k", TTL(10*time.Second), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		// Extend is applied, the reply lost; then the network is cut for 20 s.
		f.set(func() {
			f.after = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Extend(ctx, time.Hour), ErrUnknown)
		f.set(func() {
			f.after = nil
			f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		require.ErrorIs(t, l.Unlock(t.Context()), ErrUnknown)
		time.Sleep(20 * time.Second)
		f.set(func() { f.before = nil })
		time.Sleep(time.Minute)
		assert.False(t, f.Exists("k"), "a minute after the network is back: %v", f.TTL("k"))
	})
}

func TestForceReleaseForeign(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		for _, v := range []string{"gl1|m|0123|0|30000|host:17|", "gl1|m|0123456789abcdef0123456789abcdef|0|30000|host:17"} {
			require.NoError(t, f.Set("k", v))
			h, err := f.client(t).ForceRelease(t.Context(), "k")
			assert.ErrorIs(t, err, ErrForeign, "%+v", h)
			assert.True(t, f.Exists("k"))
		}
	})
}

func TestAttachAgainAfterUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		id, err := lease.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		f.set(func() {
			f.after = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Mutex("k").Attach(ctx, id)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		f.set(func() { f.after = nil; f.before = onceScript(mutexFamily.unattach.sha()) })
		_, err = c.Mutex("k").Attach(t.Context(), id)
		assert.NoError(t, err, "the id remains good for another Attach")
	})
}

func TestAdminErrors(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Inspect(ctx, "k")
		assert.NotErrorIs(t, err, ErrUnavailable, "%v", err)
		c.ForceRelease(t.Context(), "x")
		f.set(func() { f.after = once("EVALSHA", errLostReply) })
		_, err = c.ForceRelease(t.Context(), "k")
		assert.ErrorIs(t, err, ErrUnknown, "%v", err)
	})
}

// A machine that has been suspended, or seems to have been, before the lease was taken.
func TestTermOfALeaseTakenAfterASuspension(t *testing.T) {
	l := &tenure{}
	sent := moment{at: time.Now(), asleep: time.Hour}
	l.armed(sent, sent, time.Minute)
	assert.False(t, l.term.deadline.IsZero())
	assert.InDelta(t, time.Minute, l.term.leftAt(moment{time.Now(), time.Hour}), float64(5*time.Second))
	assert.Negative(t, term{}.leftAt(moment{time.Now(), time.Hour}))
}

func TestTermAfterSuspension(t *testing.T) {
	sent := moment{at: time.Now()}
	l := &tenure{}
	l.armed(sent, sent, time.Hour)
	// the machine slept 59 minutes; a renewal by 30 s is confirmed
	sent.asleep = 59*time.Minute + 50*time.Second
	l.catchUp(sent)
	l.armed(sent, sent, 30*time.Second)
	assert.Greater(t, l.term.leftAt(moment{time.Now(), sent.asleep}), 25*time.Second)
}

func TestExtendRacesARenewal(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		l, err := f.client(t).Mutex("k", TTL(9*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		// The renewal at 2.7..3 s is answered at 3.1 s; Extend is answered at 3.05 s.
		var n atomic.Int32
		f.set(func() {
			f.after = func(ctx context.Context, cmd driver.Command) error {
				if n.Add(1) == 1 {
					time.Sleep(500 * time.Millisecond)
				}
				return nil
			}
		})
		time.Sleep(3 * time.Second)
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		time.Sleep(time.Minute)
		assert.True(t, l.Valid(), "%v", l.Err())
	})
}

// A lock that is held for a short time only is given up before the watching goroutine has
// looked at it. The next one, whose time comes later, does not wake it once more.
func TestShortHoldsDoNotWakeTheWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(newLink(nil))
		defer w.close()
		long := new(job)
		require.True(t, w.add(long, now().add(time.Minute), 0))
		synctest.Wait()
		short := new(job)
		require.True(t, w.add(short, now().add(3*time.Second), 0))
		w.remove(short)
		synctest.Wait()
		assert.Equal(t, 3*time.Second, w.wakeAt)
		next := new(job)
		require.True(t, w.add(next, now().add(4*time.Second), 0))
		assert.Empty(t, w.wake)
		w.remove(next)
		w.remove(long)
	})
}

// A busyTask is about a job that is to be looked at again in a minute, which it tells once it may.
type busyTask struct {
	task
	watchdog *watchdog
	job      job
	may      chan struct{}
}

func (b *busyTask) due(now moment) need {
	<-b.may
	b.watchdog.move(&b.job, now.add(time.Minute), 0)
	return need{}
}

func newBusyTask(t *testing.T) *busyTask {
	b := &busyTask{watchdog: newWatchdog(newLink(nil)), may: make(chan struct{})}
	b.job.task = b
	require.True(t, b.watchdog.add(&b.job, now(), 0))
	synctest.Wait()
	return b
}

// Close misses no job that is being looked at: nobody else would release its lock.
func TestCloseOfTheWatchdogReturnsAJobThatIsBeingLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusyTask(t)
		left := make(chan []*job, 1)
		go func() { left <- b.watchdog.close() }()
		synctest.Wait()
		close(b.may)
		assert.Equal(t, []*job{&b.job}, <-left)
	})
}

// What is about to look at a job that is over meanwhile does not begin it anew.
func TestAJobThatIsOverStaysOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, end := range []func(*busyTask){
			func(b *busyTask) { b.watchdog.remove(&b.job) },
			func(b *busyTask) { b.watchdog.move(&b.job, moment{}, 0) },
		} {
			b := newBusyTask(t)
			end(b)
			close(b.may)
			synctest.Wait()
			assert.Empty(t, b.watchdog.close())
		}
	})
}
