package locker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// sides returns both sides of a read-write lock on a client of their own.
func (f *fakeDeployment) sides(t *testing.T, opts ...Option) (read, write *Mutex) {
	c := f.client(t)
	return c.Mutex("k", append(opts, ForReading())...), c.Mutex("k", append(opts, ForWriting())...)
}

// background calls Lock in a goroutine and returns when it waits, or is done.
func background(t *testing.T, m *Mutex) <-chan *Lease {
	got := make(chan *Lease, 1)
	go func() {
		lease, err := m.Lock(t.Context())
		assert.NoError(t, err)
		got <- lease
	}()
	synctest.Wait()
	return got
}

func granted(got <-chan *Lease) *Lease {
	synctest.Wait()
	select {
	case lease := <-got:
		return lease
	default:
		return nil
	}
}

func TestReadersShareAndAWriterIsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t)
		r1, err := read.Lock(t.Context())
		require.NoError(t, err)
		r2, err := read.Lock(t.Context())
		require.NoError(t, err)
		_, err = write.TryLock(t.Context())
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, Reading, locked.Holder.Mode)
		assert.InDelta(t, 30*time.Second, locked.Holder.Remaining, float64(time.Second))
		require.NoError(t, r1.Unlock(t.Context()))
		require.NoError(t, r2.Unlock(t.Context()))
		w, err := write.TryLock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Writing, w.Mode())
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		_, err = write.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		require.NoError(t, w.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

func TestUncontendedReadPairIsTwoCommands(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, _ := f.sides(t)
		for range 2 {
			f.reset()
			lease, err := read.Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		assert.Equal(t, []string{"EVALSHA", "EVALSHA"}, f.commands())
	})
}

func TestArrivalOrder(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t)
		read2, write2 := f.sides(t)
		w0, err := write.Lock(t.Context())
		require.NoError(t, err)
		r1, r2 := background(t, read2), background(t, read)
		w3 := background(t, write2)
		r4 := background(t, read)

		begun := time.Now()
		require.NoError(t, w0.Unlock(t.Context()))
		l1, l2 := granted(r1), granted(r2)
		require.NotNil(t, l1, "all readers wake together")
		require.NotNil(t, l2)
		assert.Nil(t, granted(w3))
		assert.Nil(t, granted(r4), "a reader does not overtake a writer")
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		require.NoError(t, l1.Unlock(t.Context()))
		assert.Nil(t, granted(w3))
		require.NoError(t, l2.Unlock(t.Context()))
		l3 := granted(w3)
		require.NotNil(t, l3)
		assert.Nil(t, granted(r4))
		require.NoError(t, l3.Unlock(t.Context()))
		l4 := granted(r4)
		require.NotNil(t, l4)
		assert.Zero(t, time.Since(begun), "nobody had to poll")
		require.NoError(t, l4.Unlock(t.Context()))
		time.Sleep(time.Minute)
		assert.Empty(t, f.Keys())
	})
}

// An owner that waits in several places, one behind the other, is granted all of them at once.
func TestWhatAnOwnerWaitsForIsGrantedTogether(t *testing.T) {
	for name, opts := range map[string][]Option{"reentrant": {Reentrant()}, "writing": {ForWriting()}, "writing and reading": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				first := must(t, f.client(t).Mutex("k", opts...))
				opts := append(opts, As(NamedOwner("both")))
				also := opts
				if name == "writing and reading" {
					also = append(opts[1:], ForReading())
				}
				one, both := background(t, f.client(t).Mutex("k", opts...)), background(t, f.client(t).Mutex("k", also...))
				begun := time.Now()
				require.NoError(t, first.Unlock(t.Context()))
				for _, got := range []<-chan *Lease{one, both} {
					lease := granted(got)
					require.NotNil(t, lease)
					defer lease.Unlock(t.Context())
				}
				assert.Zero(t, time.Since(begun), "nobody had to poll")
			})
		})
	}
}

func TestEveryReaderHasItsOwnDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		long, write := f.sides(t, TTL(30*time.Second), NoRenewal())
		short, _ := f.sides(t, TTL(300*time.Millisecond), NoRenewal())
		lead, err := long.Lock(t.Context())
		require.NoError(t, err)
		deadline := lead.Deadline()
		brief, err := short.Lock(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Until(brief.Deadline()), 300*time.Millisecond)
		assert.Equal(t, deadline, lead.Deadline())
		begun := time.Now()
		w, err := write.Lock(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 30*time.Second, time.Since(begun), float64(time.Second), "the long one is not cut")
		require.NoError(t, w.Unlock(t.Context()))
	})
}

func TestCrashedReaderDelaysAWriterByItsOwnTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		crashed, _ := f.sides(t, TTL(5*time.Second), NoRenewal())
		alive, write := f.sides(t, TTL(10*time.Second))
		_, err := crashed.Lock(t.Context())
		require.NoError(t, err)
		r, err := alive.Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		w := background(t, write)
		time.Sleep(time.Second)
		require.NoError(t, r.Unlock(t.Context()))
		<-w
		assert.LessOrEqual(t, time.Since(begun), 5*time.Second+pollInterval)
	})
}

func TestWriterReadsAndIsNotWaitedForByItself(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t, Fenced())
		other, _ := f.sides(t, Fenced())
		ctx := WithOwner(t.Context(), NewOwner())
		w, err := write.Lock(ctx)
		require.NoError(t, err)
		waiting := background(t, other)
		r, err := read.Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, w.Token(), r.Token(), "readers get the token of the last writer")
		assert.Nil(t, granted(waiting))
		begun := time.Now()
		require.NoError(t, w.Unlock(ctx))
		l := granted(waiting)
		require.NotNil(t, l, "a writer that goes on reading lets readers in")
		assert.Equal(t, w.Token(), l.Token())
		assert.Zero(t, time.Since(begun))
		assert.True(t, r.Valid())
		time.Sleep(time.Hour)
		assert.True(t, r.Valid(), "renewal of the read hold goes on")
		require.NoError(t, r.Unlock(ctx))
		require.NoError(t, l.Unlock(ctx))
		assert.False(t, f.Exists("k"))
	})
}

func TestDowngradeLeavesNoGap(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t, Fenced())
		w, err := write.Lock(t.Context())
		require.NoError(t, err)
		writer := background(t, write)
		r, err := w.Downgrade(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Reading, r.Mode())
		assert.Equal(t, w.Token(), r.Token())
		assert.False(t, w.Valid())
		assert.ErrorIs(t, context.Cause(w.Context()), ErrReleased)
		assert.Nil(t, granted(writer))
		_, err = r.Downgrade(t.Context())
		assert.ErrorIs(t, err, ErrInvalid)
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked, "a writer waits")
		require.NoError(t, r.Unlock(t.Context()))
		l := granted(writer)
		require.NotNil(t, l)
		assert.Greater(t, l.Token(), w.Token())
	})
}

// Somebody may recover what a driver or an observer has panicked with. The lease for reading has
// not been returned then, and nobody would ever give it up.
func TestDowngradeThatDoesNotReturnHoldsNothing(t *testing.T) {
	for name, fail := range map[string]func(f *fakeDeployment, o *Observer){
		"an observer panics": func(_ *fakeDeployment, o *Observer) {
			o.HoldEnd = func(_ context.Context, e HoldEnd) {
				if e.Mode == Writing {
					panic("in an observer")
				}
			}
		},
		"an observer ends the goroutine": func(_ *fakeDeployment, o *Observer) {
			o.HoldEnd = func(_ context.Context, e HoldEnd) {
				if e.Mode == Writing {
					runtime.Goexit()
				}
			}
		},
		"the driver panics": func(f *fakeDeployment, _ *Observer) {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Args[1] == holdFamily.release.sha() {
					f.set(func() { f.before = nil })
					panic("in the driver")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				var o Observer
				fail(f, &o)
				w, err := f.client(t, Observe(o)).Mutex("k", ForWriting()).Lock(t.Context())
				require.NoError(t, err)
				go func() {
					defer func() { _ = recover() }()
					_, _ = w.Downgrade(t.Context())
					t.Error("it returned")
				}()
				time.Sleep(cleanupPause)
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

func TestUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t, Fenced())
		r, err := read.Lock(t.Context())
		require.NoError(t, err)
		w, err := r.Upgrade(t.Context())
		require.NoError(t, err, "alone it is granted")
		assert.Greater(t, w.Token(), r.Token())
		assert.True(t, r.Valid())
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		require.NoError(t, w.Unlock(t.Context()))

		other, err := read.Lock(t.Context())
		require.NoError(t, err)
		_, err = r.TryUpgrade(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		writer := background(t, write)
		upgraded := make(chan *Lease, 1)
		go func() {
			w, err := r.Upgrade(t.Context())
			assert.NoError(t, err)
			upgraded <- w
		}()
		synctest.Wait()
		begun := time.Now()
		_, err = other.Upgrade(t.Context())
		assert.ErrorIs(t, err, ErrDeadlock, "each would wait for the other")
		assert.Zero(t, time.Since(begun))
		assert.Nil(t, granted(upgraded))
		require.NoError(t, other.Unlock(t.Context()))
		w = granted(upgraded)
		require.NotNil(t, w, "before the writer who waited already")
		require.NoError(t, w.Unlock(t.Context()))
		assert.Nil(t, granted(writer))
		require.NoError(t, r.Unlock(t.Context()))
		require.NotNil(t, granted(writer))
		assert.Zero(t, time.Since(begun))
	})
}

// Who reads with the token of the last writer writes with one of its own: to a resource it would be
// that writer otherwise.
func TestUpgradeBehindAWriterDrawsALargerToken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t, Fenced())
		writer := must(t, write)
		require.NoError(t, writer.Unlock(t.Context()))
		r := must(t, read)
		require.Equal(t, writer.Token(), r.Token())
		w, err := r.Upgrade(t.Context())
		require.NoError(t, err)
		assert.Greater(t, w.Token(), r.Token())
		require.NoError(t, w.Unlock(t.Context()))

		other := must(t, read)
		require.Equal(t, w.Token(), other.Token())
		upgraded := make(chan *Lease, 1)
		go func() {
			waited, err := r.Upgrade(t.Context())
			assert.NoError(t, err)
			upgraded <- waited
		}()
		require.Nil(t, granted(upgraded))
		require.NoError(t, other.Unlock(t.Context()))
		waited := granted(upgraded)
		require.NotNil(t, waited)
		assert.Greater(t, waited.Token(), other.Token())
	})
}

func TestReadersAndWriterHandOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		for _, mode := range []Option{ForReading(), ForWriting(), Reentrant()} {
			m := f.client(t).Mutex("k", mode, Fenced())
			lease, err := m.Lock(t.Context())
			require.NoError(t, err)
			id, err := lease.Detach(t.Context(), 10*time.Second)
			require.NoError(t, err)
			there := f.client(t).Mutex("k", mode, Fenced())
			taken, err := there.Attach(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, lease.Owner(), taken.Owner())
			_, err = there.Attach(t.Context(), id)
			assert.ErrorIs(t, err, ErrTaken)
			require.NoError(t, taken.Unlock(t.Context()))
			_, err = there.Attach(t.Context(), id)
			assert.ErrorIs(t, err, ErrAbsent)
		}
	})
}

func TestInspectAndForceReleaseOfReaders(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t, Metadata("report"))
		for range 2 {
			_, err := read.Lock(WithOwner(t.Context(), NamedOwner("both")))
			require.NoError(t, err)
		}
		third, err := read.Lock(t.Context())
		require.NoError(t, err)
		c := f.client(t)
		s, err := c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, s.Holders, 2)
		for _, h := range s.Holders {
			assert.Equal(t, Reading, h.Mode)
			assert.Equal(t, "report", h.Metadata)
			assert.InDelta(t, 30*time.Second, h.Remaining, float64(time.Second))
		}
		writer := background(t, write)
		holders, err := c.ForceRelease(t.Context(), "k")
		require.NoError(t, err)
		assert.Len(t, holders, 2)
		require.NotNil(t, granted(writer))
		assert.ErrorIs(t, third.Unlock(t.Context()), ErrTaken)
	})
}

// A stream of readers that crash leaves no more behind than those of one TTL.
func TestCrashedReadersAreForgotten(t *testing.T) {
	withoutRaceDetector(t)
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, _ := f.sides(t, TTL(time.Second), NoRenewal())
		for range 3000 {
			_, err := read.Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond)
		}
		keys, err := f.HKeys("k")
		require.NoError(t, err)
		assert.Less(t, len(keys), 200)
	})
}

func TestReadersDoNotStarveAWriter(t *testing.T) {
	withoutRaceDetector(t)
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t)
		ctx, cancel := context.WithCancel(t.Context())
		var sections atomic.Int32
		var readers sync.WaitGroup
		defer readers.Wait()
		defer cancel()
		for range 8 {
			readers.Go(func() {
				for ctx.Err() == nil {
					lease, err := read.Lock(ctx)
					if err != nil {
						return
					}
					sections.Add(1)
					time.Sleep(10 * time.Millisecond)
					lease.Unlock(context.WithoutCancel(ctx))
				}
			})
		}
		for range 100 {
			begun := time.Now()
			lease, err := write.Lock(t.Context())
			require.NoError(t, err)
			assert.LessOrEqual(t, time.Since(begun), 30*time.Millisecond)
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(7 * time.Millisecond)
		}
		assert.Greater(t, int(sections.Load()), 100, "nor does the writer starve them")
	})
}

func TestRecordOfHolds(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("host:1"))
		lease, err := c.Mutex("k", ForWriting(), Fenced(), As(NamedOwner("job")), Metadata("a|b")).Lock(t.Context())
		require.NoError(t, err)
		until := time.Now().Add(30 * time.Second).UnixMilli()
		assert.Equal(t, "rw", f.HGet("k", "gl1"))
		assert.Equal(t, fmt.Sprint(until), f.HGet("k", "w"))
		hold := f.HGet("k", lease.tenure.id)
		assert.Equal(t, fmt.Sprintf("w|%d|30000|%s|job|host:1|a|b", until, lease.Token()), hold)
		assert.Equal(t, 30*time.Second, f.TTL("k"))
		h, ok := parseHold(hold, until-1000)
		require.True(t, ok)
		assert.Equal(t, Holder{Mode: Writing, Owner: "job", Holds: 1, Label: "host:1", Metadata: "a|b", Token: lease.Token(), Remaining: time.Second}, h)
	})
}

func TestBinaryMetadataSurvivesTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		metadata := "a\x00|b\r\n\xff" + strings.Repeat("x", 1000)
		for _, mode := range [][]Option{{}, {Fenced()}, {Reentrant()}, {ForReading()}, {ForWriting()}} {
			c := f.client(t)
			held, err := c.Mutex("k", mode...).Lock(t.Context())
			require.NoError(t, err)
			if held.Mode() == Reading {
				require.NoError(t, held.Unlock(t.Context()))
				held, err = c.Mutex("k", ForWriting()).Lock(t.Context())
				require.NoError(t, err)
			}
			waiting := background(t, f.client(t).Mutex("k", append(mode, Metadata(metadata))...))
			require.NoError(t, held.Unlock(t.Context()))
			lease := granted(waiting)
			require.NotNil(t, lease)
			s, err := c.Inspect(t.Context(), "k")
			require.NoError(t, err)
			require.Len(t, s.Holders, 1)
			assert.Equal(t, metadata, s.Holders[0].Metadata)
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// A writer that also reads, as after an Upgrade, is alone whoever else gives up
// meanwhile.
func TestWriterThatReadsStaysAlone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t)
		for range 20 { // which of its holds the server meets first is left to chance
			r, err := read.Lock(t.Context())
			require.NoError(t, err)
			w, err := r.Upgrade(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = write.Lock(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			synctest.Wait()
			_, err = read.TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked)
			require.NoError(t, w.Unlock(t.Context()))
			require.NoError(t, r.Unlock(t.Context()))
		}
	})
}

// An owner writes in two processes, and what the later one has runs out first. Readers look for a
// writer until the last hold has.
func TestWriterStaysAloneWhenItsLaterHoldRunsOut(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, _ := f.sides(t)
		as := As(NamedOwner("import"))
		_, long := f.sides(t, as, TTL(time.Minute), NoRenewal())
		_, short := f.sides(t, as, TTL(time.Second), NoRenewal())
		must(t, long)
		must(t, short)
		for _, at := range []time.Duration{2 * time.Second, 57 * time.Second} {
			time.Sleep(at)
			_, err := read.TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked)
		}
		time.Sleep(time.Second)
		must(t, read)
	})
}

func TestForceReleaseOfHoldsThatHaveRunOut(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		long, _ := f.sides(t, TTL(10*time.Second))
		short, _ := f.sides(t, TTL(time.Second), NoRenewal())
		r, err := long.Lock(t.Context())
		require.NoError(t, err)
		_, err = short.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Unlock(t.Context()))
		time.Sleep(2 * time.Second)
		_, err = f.client(t).ForceRelease(t.Context(), "k")
		assert.ErrorIs(t, err, ErrAbsent)
	})
}

// A late request that does not name the waiter's place may take the lock, where its
// owner has it already. The place that is left does not shorten that hold.
func TestGrantToWhoHoldsAlreadyChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		_, write := f.sides(t)
		c := write.client
		one := func(mode mode, owner string, ttl time.Duration) *request {
			return &request{name: "k", keys: &write.keys, mode: mode, id: newID(), owner: owner, tail: "|" + owner, ttl: ttl, px: millis(ttl), fenced: true}
		}
		ask := func(r *request, p place) Token {
			token, _, _ := c.store.acquire(t.Context(), r, p)
			return token
		}
		ask(one(modeRead, "job", time.Minute), place{})
		ask(one(modeRead, "other", time.Second), place{})
		w := one(modeWrite, "job", 30*time.Second)
		require.Zero(t, ask(w, place{reservation: newID(), life: 5 * time.Second}))
		time.Sleep(2 * time.Second) // the other one has run out unnoticed
		token := ask(w, place{})
		require.NotZero(t, token)
		_, err := c.store.link.run(t.Context(), c.store.releaseCall(write, newID(), "", 0))
		require.NoError(t, err)
		h, ok := parseHold(f.HGet("k", w.id), time.Now().UnixMilli())
		require.True(t, ok)
		assert.Equal(t, 30*time.Second, h.Remaining)
		assert.Equal(t, token, h.Token)
	})
}

// Of an owner's two upgrades the later one was abandoned. The other still waits, and
// the next reader that wants to upgrade would wait for it as it waits for them.
func TestDeadlockIsSeenBehindAnAbandonedUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		_, write := f.sides(t)
		ask := func(mode mode, owner string, life time.Duration) error {
			r := &request{name: "k", keys: &write.keys, mode: mode, id: newID(), owner: owner, tail: "|", ttl: time.Minute, px: "60000"}
			_, _, err := write.client.store.acquire(t.Context(), r, place{reservation: newID(), life: life})
			time.Sleep(time.Millisecond)
			return err
		}
		require.NoError(t, ask(modeRead, "job", time.Second))
		require.NoError(t, ask(modeRead, "other", time.Second))
		require.ErrorIs(t, ask(modeWrite, "job", time.Second), ErrLocked)
		require.ErrorIs(t, ask(modeWrite, "job", 5*time.Millisecond), ErrLocked)
		time.Sleep(10 * time.Millisecond)
		assert.ErrorIs(t, ask(modeWrite, "other", time.Second), ErrDeadlock)
	})
}

// The writer waits for the lease under whose context the second reader waits. Nobody knows
// whether it will go on to.
func TestReaderOfAnotherOwnerWaitsForAWriterToGiveUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, _ := f.sides(t)
		_, write := f.sides(t, WaitTimeout(time.Minute))
		outer, err := read.Lock(t.Context())
		require.NoError(t, err)
		writer := lockEnds(t.Context(), write)
		synctest.Wait()
		inner, err := read.Lock(outer.Context())
		require.NoError(t, err, "its owner re-enters")
		require.NoError(t, inner.Unlock(t.Context()))
		begun := time.Now()
		inner, err = read.Lock(WithOwner(outer.Context(), NewOwner()))
		require.NoError(t, err)
		assert.InDelta(t, time.Minute, time.Since(begun), float64(time.Second))
		assert.ErrorIs(t, <-writer, ErrWaitTimeout)
		require.NoError(t, inner.Unlock(t.Context()))
		require.NoError(t, outer.Unlock(t.Context()))
	})
}

// Readers have the token of the last writer, though somebody has taken the lock for a mutex
// meanwhile.
func TestMutexDrawsNoTokenOfALockWithOwners(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t, Fenced())
		writer, err := write.Lock(t.Context())
		require.NoError(t, err)
		_, err = f.client(t).Mutex("k", Fenced()).TryLock(t.Context())
		require.ErrorIs(t, err, ErrForeign)
		require.NoError(t, writer.Unlock(t.Context()))
		reader, err := read.Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, writer.Token(), reader.Token())
	})
}

// The last token is kept for as long as somebody reads from time to time, though nobody writes: else
// what is read later would seem to be older.
func TestReadersKeepTheTokenOfTheLastWriter(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.sides(t, Fenced())
		writer := must(t, write)
		require.NoError(t, writer.Unlock(t.Context()))
		for range 5 {
			time.Sleep(fenceRetention - time.Minute)
			reader := must(t, read)
			assert.Equal(t, writer.Token(), reader.Token())
			require.NoError(t, reader.Unlock(t.Context()))
		}
		time.Sleep(fenceRetention)
		assert.False(t, f.Exists(read.keys.fence))
	})
}
