package locker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestWriterWhoReadsTooStaysAloneWhenOthersEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		owner := As(NamedOwner("job"))
		read, write := f.sides(t)
		reading, err := f.client(t).Mutex("k", ForReading(), owner).Lock(t.Context())
		require.NoError(t, err)
		writing, err := reading.Upgrade(t.Context())
		require.NoError(t, err)

		// Another one gives up to wait, and a hold of the writer's own ends.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = write.Lock(ctx)
		assert.ErrorIs(t, err, ErrLocked)
		synctest.Wait() // it leaves the queue in the background
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked, "a waiter has given up")
		again, err := f.client(t).Mutex("k", ForReading(), owner).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, again.Unlock(t.Context()))
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked, "a hold for reading has ended")

		require.True(t, writing.Valid())
		require.NoError(t, writing.Unlock(t.Context()))
		other, err := read.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))
		require.NoError(t, reading.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

// Whichever of them looks first: that is at random.
func TestReadersWhoBecameReadersWhileTheyWaitedToWriteAreNoDeadlock(t *testing.T) {
	for range 8 {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			_, write := f.sides(t)
			first, err := write.Lock(t.Context())
			require.NoError(t, err)
			read1, write1 := f.sides(t, As(NamedOwner("one")))
			read2, write2 := f.sides(t, As(NamedOwner("two")))
			reading1, reading2 := background(t, read1), background(t, read2)
			writing1 := background(t, write1)
			refused := make(chan error, 1)
			go func() {
				_, err := write2.Lock(t.Context())
				refused <- err
			}()
			synctest.Wait()
			require.NoError(t, first.Unlock(t.Context()))
			lease1, lease2 := granted(reading1), granted(reading2)
			require.NotNil(t, lease1)
			require.NotNil(t, lease2)
			time.Sleep(2 * pollInterval)
			synctest.Wait()
			require.Len(t, refused, 1, "each waits for the other")
			assert.ErrorIs(t, <-refused, ErrDeadlock)
			require.NoError(t, lease2.Unlock(t.Context()))
			assert.NotNil(t, granted(writing1))
		})
	}
}

func TestUpgradeBesideAWaiterWhoReadsNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read1, _ := f.sides(t, NoRenewal(), TTL(2*time.Second))
		read2, _ := f.sides(t)
		short, err := read1.Lock(t.Context())
		require.NoError(t, err)
		long, err := read2.Lock(t.Context())
		require.NoError(t, err)
		_, err = read2.Lock(t.Context())
		require.NoError(t, err)
		go short.Upgrade(t.Context())
		synctest.Wait()
		_, err = long.TryUpgrade(t.Context())
		assert.ErrorIs(t, err, ErrDeadlock)
		time.Sleep(3 * time.Second)
		assert.ErrorIs(t, short.Err(), ErrLost)
		_, err = long.TryUpgrade(t.Context())
		assert.ErrorIs(t, err, ErrLocked, "by a third reader, and who waits reads no more")
	})
}

// Nor beside one who reads still, but has stopped waiting to write without saying so.
func TestUpgradeBesideOneThatWasAbandoned(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, _ := f.sides(t)
		other, _ := f.sides(t, As(NamedOwner("other")))
		lease := must(t, read)
		must(t, other)
		_, err := come(t, f.client(t).Mutex("k", ForWriting()), newID()) // for 3 s
		require.ErrorIs(t, err, ErrLocked)
		_, err = lease.TryUpgrade(t.Context())
		assert.ErrorIs(t, err, ErrDeadlock)
		time.Sleep(4 * time.Second)
		_, err = lease.TryUpgrade(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
	})
}

func TestUpgradeEndsWithTheLeaseItIsMadeFrom(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, _ := f.sides(t, NoRenewal(), TTL(3*time.Second))
		other, _ := f.sides(t)
		_, err := other.Lock(t.Context())
		require.NoError(t, err)
		lease, err := read.Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		_, err = lease.Upgrade(t.Context())
		assert.ErrorIs(t, err, ErrLost)
		assert.Less(t, time.Since(begun), 4*time.Second)
	})
}

// Whoever asks whether the reading lease is there still is a call in progress, which Close waits for.
func TestCloseWaitsForAnUpgradeThatIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, _ := f.sides(t)
		reading := must(t, read)
		const confirms = time.Second
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if holdFamily.renew.runs(cmd) {
					time.Sleep(confirms)
				}
				return nil
			}
		})
		upgraded := make(chan struct{})
		go func() { defer close(upgraded); _, _ = reading.Upgrade(t.Context()) }()
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, read.client.Close())
		assert.Equal(t, confirms, time.Since(begun))
		<-upgraded
	})
}

// A lease that is over keeps nobody out for a moment, by what it cannot have.
func TestChangeOfALeaseThatIsOverAsksNothing(t *testing.T) {
	for name, test := range map[string]struct {
		from   Option
		change func(*Lease, context.Context) (*Lease, error)
	}{
		"upgrade":        {ForReading(), (*Lease).Upgrade},
		"try to upgrade": {ForReading(), (*Lease).TryUpgrade},
		"downgrade":      {ForWriting(), (*Lease).Downgrade},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				lease := must(t, f.client(t).Mutex("k", test.from))
				require.NoError(t, lease.Unlock(t.Context()))
				synctest.Wait()
				f.reset()
				_, err := test.change(lease, t.Context())
				assert.ErrorIs(t, err, ErrReleased)
				synctest.Wait()
				assert.Empty(t, f.commands())
			})
		})
	}
}
