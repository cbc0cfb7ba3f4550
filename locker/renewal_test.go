package locker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func valid(leases []*Lease) (n int) {
	for _, l := range leases {
		if l.Valid() {
			n++
		}
	}
	return n
}

// A thousand leases are renewed by a request for each few dozen, each in time, whatever
// they have in common and however they were taken.
func TestManyLeasesFewRequests(t *testing.T) {
	withoutRaceDetector(t)
	const n, ttl = 1000, 10 * time.Second
	for name, opts := range map[string][]Option{"mutexes": nil, "fenced": {Fenced()}, "holds": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				leases := holdMany(t, f.client(t, TTL(ttl)), n, opts...)
				log := logRenewals(f, nil)
				const rounds = 4
				least := ttl
				for range 100 * rounds {
					time.Sleep(ttl / 300)
					for _, l := range leases[:10] {
						least = min(least, f.TTL(l.mutex.keys.record))
					}
				}
				assert.GreaterOrEqual(t, least, ttl*64/100, "no renewal was late")
				assert.Equal(t, n, valid(leases))
				sizes := log.take()
				renewed := 0
				for _, size := range sizes {
					renewed += size
				}
				assert.InDelta(t, n*rounds, renewed, n*rounds/10+n, "renewals of all leases")
				assert.Less(t, len(sizes), renewed/20, "requests")
			})
		})
	}
}

// TTLs that differ share the batches and not the script calls. Each is asked for its own.
func TestRenewalsOfMixedTTLs(t *testing.T) {
	withoutRaceDetector(t)
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		var leases []*Lease
		ttls := []time.Duration{time.Second, 10 * time.Second, 11 * time.Second, time.Minute}
		for i := range 200 {
			l, err := c.Mutex(fmt.Sprint("lock", i), TTL(ttls[i%len(ttls)])).Lock(t.Context())
			require.NoError(t, err)
			leases = append(leases, l)
		}
		for range 300 {
			time.Sleep(201 * time.Millisecond)
			for i, l := range leases {
				left := f.TTL(l.mutex.keys.record)
				require.Greater(t, left, ttls[i%len(ttls)]*60/100)
				require.LessOrEqual(t, left, ttls[i%len(ttls)])
			}
		}
		assert.Equal(t, len(leases), valid(leases))
	})
}

// A request that is not answered loses no lease. It is made again, and all are kept if
// that succeeds before their deadline; and all end in time if none does.
func TestManyRenewalsOfUnknownOutcome(t *testing.T) {
	const n, ttl = 200, 10 * time.Second
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		leases := holdMany(t, f.client(t, TTL(ttl)), n)
		var cut sync.Mutex
		lost := false
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				cut.Lock()
				defer cut.Unlock()
				if renewals(cmd) > 0 && lost {
					return errLostReply
				}
				return nil
			}
		})
		fail := func(yes bool) { cut.Lock(); lost = yes; cut.Unlock() }
		time.Sleep(ttl)
		fail(true)
		time.Sleep(ttl / 2)
		require.Equal(t, n, valid(leases), "nothing is known yet")
		fail(false)
		time.Sleep(ttl)
		require.Equal(t, n, valid(leases), "renewed again")

		fail(true)
		time.Sleep(ttl / 2)
		deadlines := make([]time.Time, n)
		for i, l := range leases {
			deadlines[i] = l.Deadline()
			require.False(t, deadlines[i].IsZero(), "not lost before its deadline")
		}
		last := slices.MaxFunc(deadlines, time.Time.Compare)
		for i, l := range leases {
			context.AfterFunc(l.Context(), func() {
				assert.False(t, time.Now().Before(deadlines[i]))
				assert.False(t, time.Now().After(deadlines[i].Add(lateness(ttl))))
			})
		}
		time.Sleep(time.Until(last))
		synctest.Wait()
		assert.Zero(t, valid(leases))
		for _, l := range leases {
			assert.ErrorIs(t, context.Cause(l.Context()), ErrLost)
			assert.NotErrorIs(t, l.Err(), ErrNotHeld, "nobody has said so")
		}
	})
}

// One lease of a bundle that is gone ends at once, and no other does.
func TestOneOfManyIsLost(t *testing.T) {
	withoutRaceDetector(t)
	for name, opts := range map[string][]Option{"mutexes": nil, "holds": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				leases := holdMany(t, f.client(t, TTL(10*time.Second)), 100, opts...)
				f.Del("lock7")
				f.Del("lock8")
				require.NoError(t, f.Set("lock8", "foreign"))
				time.Sleep(4 * time.Second)
				assert.ErrorIs(t, leases[7].Err(), ErrAbsent)
				assert.ErrorIs(t, leases[8].Err(), ErrTaken)
				time.Sleep(time.Minute)
				assert.Equal(t, 98, valid(leases))
			})
		})
	}
}

// The next renewal is due a third of the TTL after the last one was sent, not after it was
// answered: what a slow server takes for its answers does not add up.
func TestRenewalsAreDueByTheirSending(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		const ttl = 9 * time.Second
		lease := must(t, f.client(t).Mutex("k", TTL(ttl)))
		last, least := time.Now(), ttl
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if renewals(cmd) == 1 {
					assert.LessOrEqual(t, time.Since(last), ttl/3)
					last, least = time.Now(), min(least, f.TTL("k"))
				}
				time.Sleep(1500 * time.Millisecond)
				return nil
			}
		})
		time.Sleep(20 * ttl)
		synctest.Wait()
		assert.GreaterOrEqual(t, least, ttl/3, "left when a renewal was sent")
		f.heal()
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Whatever a lease was lost by, and whether it is unlocked then or not, the watchdog goes on: the client
// takes the lock again, which is renewed for as long as it is held, and no longer.
func TestAClientThatHasLostALeaseRenewsTheNext(t *testing.T) {
	const ttl = 9 * time.Second
	failing := func(err error) func(t *testing.T, f *fakeDeployment, c *Client) {
		return func(_ *testing.T, f *fakeDeployment, _ *Client) {
			f.set(func() { f.before = func(context.Context, driver.Command) error { return err } })
			time.Sleep(2 * ttl)
			f.heal()
			time.Sleep(contendedFor)
		}
	}
	losses := map[string]func(t *testing.T, f *fakeDeployment, c *Client){
		"forgotten":       func(_ *testing.T, f *fakeDeployment, _ *Client) { f.FlushAll(); time.Sleep(ttl) },
		"no answers":      failing(errLostReply),
		"no connection":   failing(driver.NotSent(io.EOF)),
		"refused":         failing(driver.NewServerError("NOPERM this user has no permissions to run the 'evalsha' command")),
		"an odd response": failing(errors.New("a driver's own")),
		"broken": func(t *testing.T, _ *fakeDeployment, c *Client) {
			broken, err := c.ForceRelease(t.Context(), "k")
			require.NoError(t, err)
			require.Len(t, broken, 1)
			time.Sleep(ttl)
		},
	}
	for kind, opts := range map[string][]Option{
		"mutex": nil, "reentrant": {Reentrant()}, "reader": {ForReading()}, "writer": {ForWriting()},
	} {
		for loss, lose := range losses {
			for _, unlocked := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/unlocked=%t", kind, loss, unlocked), func(t *testing.T) {
					bubble(t, func(t *testing.T, f *fakeDeployment) {
						c := f.client(t, TTL(ttl))
						first := must(t, c.Mutex("k", opts...))
						lose(t, f, c)
						require.ErrorIs(t, first.Err(), ErrLost)
						if unlocked {
							first.Unlock(t.Context())
						}
						next := must(t, c.Mutex("k", opts...))
						for range 5 {
							time.Sleep(ttl)
							require.NoError(t, next.Err())
							require.Positive(t, f.TTL("k"))
						}
						require.NoError(t, next.Unlock(t.Context()))
						f.reset()
						time.Sleep(5 * ttl)
						assert.Empty(t, f.commands())
						assert.Zero(t, c.jobs())
					})
				})
			}
		}
	}
}

// Leases that were taken at the same moment are not renewed at the same moment.
func TestRenewalsAreSpread(t *testing.T) {
	withoutRaceDetector(t)
	const n, ttl = 1000, 30 * time.Second
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		holdMany(t, f.client(t, TTL(ttl)), n)
		log := logRenewals(f, nil)
		for range 1000 {
			time.Sleep(ttl / 300)
			renewed := 0
			for _, size := range log.take() {
				renewed += size
			}
			require.LessOrEqual(t, renewed, n/5, "in a hundredth of the TTL")
		}
	})
}

// Leases on a part of a Cluster that hangs, however many, delay none elsewhere.
func TestHungShardDelaysNoRenewal(t *testing.T) {
	withoutRaceDetector(t)
	const n, ttl = 500, 10 * time.Second
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(sharded{f}, TTL(ttl))
		require.NoError(t, err)
		defer c.Close()
		good := make([]*Lease, n)
		for i := range good {
			good[i], err = c.Mutex(fmt.Sprint("{good}", i)).Lock(t.Context())
			require.NoError(t, err)
			_, err = c.Mutex(fmt.Sprint("{dead}", i)).Lock(t.Context())
			require.NoError(t, err)
		}
		deadShard(f)
		for range 300 {
			time.Sleep(ttl / 50)
			for _, l := range good {
				require.Greater(t, time.Until(l.Deadline()), ttl/2)
			}
		}
	})
}

// A batch that hangs, on a connection that is lost for example, delays those behind it by
// a moment only.
func TestHungBatchDelaysNoRenewal(t *testing.T) {
	const n = 1000
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		leases := holdMany(t, c, n)
		hung := make(chan struct{}, 1)
		log := logRenewals(f, func(driver.Command) error {
			select {
			case hung <- struct{}{}:
				time.Sleep(time.Second)
			default:
			}
			return nil
		})
		jobs := make([]*job, n)
		for i, l := range leases {
			jobs[i] = &l.tenure.job
			jobs[i].need = need{patience: 2 * time.Second}
		}
		for range 2 {
			c.watchdog.enqueue(jobs)
			time.Sleep(2 * soon)
			renewed := 0
			for _, size := range log.take() {
				renewed += size
			}
			assert.GreaterOrEqual(t, renewed, n-c.watchdog.maxBatch(), "all but the batch that hangs")
			time.Sleep(time.Second)
			<-hung
		}
	})
}

// A server that hangs is not asked by ever more goroutines, and all go on when it is back.
func TestHungServerHoldsFewGoroutines(t *testing.T) {
	withoutRaceDetector(t)
	const n, ttl = 1000, 10 * time.Second
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		leases := holdMany(t, f.client(t, TTL(ttl)), n)
		var mu sync.Mutex
		asking, most := 0, 0
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error {
				mu.Lock()
				asking++
				most = max(most, asking)
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				asking--
				mu.Unlock()
				return ctx.Err()
			}
		})
		time.Sleep(ttl / 2)
		f.heal()
		time.Sleep(3 * ttl)
		assert.Equal(t, n, valid(leases))
		assert.LessOrEqual(t, most, 8)
	})
}

// Why the server refused to renew is not forgotten for a renewal that was not sent.
func TestLostErrorSaysWhatTheServerSaid(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k", TTL(3*time.Second)))
		refusal, refused := driver.NewServerError("NOPERM no"), false
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				if refused {
					return driver.NotSent(context.DeadlineExceeded)
				}
				refused = true
				return refusal
			}
		})
		<-lease.Context().Done()
		reply, ok := errors.AsType[*driver.ServerError](lease.Err())
		require.True(t, ok, "%v", lease.Err())
		assert.Equal(t, "NOPERM", reply.Code)
		assert.ErrorIs(t, lease.Err(), ErrPermission)
		f.heal()
	})
}

// A renewal is not waited for any longer than other requests, however long the lease lasts still.
func TestRenewalOfALongLeaseHasTheTimeOfOtherRequests(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		const ttl = time.Hour
		must(t, f.client(t).Mutex("k", TTL(ttl)))
		var asked []time.Time
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if !mutexFamily.renew.runs(cmd) {
					return nil
				}
				if asked = append(asked, time.Now()); len(asked) > 1 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}
		})
		time.Sleep(ttl/3 + time.Minute)
		synctest.Wait()
		require.Len(t, asked, 2)
		assert.LessOrEqual(t, asked[1].Sub(asked[0]), DefaultAttemptTimeout+time.Second)
	})
}

// A renewal is not waited for so long that there is no time for another one.
func TestRenewalThatIsNotAnsweredIsMadeUpFor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k", TTL(time.Second)))
		var hung atomic.Bool
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if !mutexFamily.renew.runs(cmd) || hung.Swap(true) {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}
		})
		time.Sleep(3 * time.Second)
		assert.True(t, hung.Load())
		assert.NoError(t, lease.Err())
	})
}

// What a renewal has failed of says nothing of a loss once another one has got through.
func TestLossAfterARenewalDoesNotNameAnEarlierFailure(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		f.set(func() { f.before = once("EVALSHA", errLostReply) })
		time.Sleep(DefaultTTL)
		require.True(t, lease.Valid())
		f.Del("k")
		<-lease.Context().Done()
		lost, ok := errors.AsType[*LostError](lease.Err())
		require.True(t, ok)
		assert.ErrorIs(t, lost, ErrAbsent)
		assert.NoError(t, lost.LastErr)
	})
}

// While a renewal is asked for nothing but the end of the lease is waited for. (A bubble's clock stands before the
// process began, so that in one no time would be the latest of all.)
func TestNoFurtherRenewalIsPlannedWhileOneIsAskedFor(t *testing.T) {
	lease := must(t, newDeployment(t).client(t).Mutex("k"))
	tenure := lease.tenure
	tenure.mu.Lock()
	tenure.renewAt = 0
	at, _ := tenure.next()
	tenure.mu.Unlock()
	assert.Equal(t, lease.Deadline(), at.at)
	assert.Zero(t, tenure.due(now()))
}
