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

// Grants by message count from the waiter's last request.

// lateGrant makes somebody wait for m until long after its last request, and
// returns what it is granted then.
func lateGrant(t *testing.T, f *fakeDeployment, m *Mutex) *Lease {
	held, err := f.client(t).Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	got := background(t, m)
	time.Sleep(700 * time.Millisecond) // it polls after 750 ms at the earliest
	require.NoError(t, held.Unlock(t.Context()))
	lease := granted(got)
	require.NotNil(t, lease)
	return lease
}

func TestMaxHoldCountsFromTheGrant(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := lateGrant(t, f, f.client(t).Mutex("k", MaxHold(500*time.Millisecond)))
		assert.NoError(t, lease.Err())
		time.Sleep(499 * time.Millisecond)
		assert.NoError(t, lease.Err())
		time.Sleep(time.Millisecond)
		assert.ErrorIs(t, lease.Err(), ErrMaxHold)
	})
}

func TestWhatIsNotRenewedIsGrantedForAllOfItsTTL(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		const ttl = 2 * time.Second
		lease := lateGrant(t, f, f.client(t).Mutex("k", NoRenewal(), TTL(ttl)))
		assert.Equal(t, ttl-margin(ttl), time.Until(lease.Deadline()))
	})
}

// A grant is for no longer than the waiter's place would have been kept, and so is the lease.
func TestGrantIsForNoLongerThanThePlace(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := must(t, f.client(t).Mutex("k"))
		got := background(t, f.client(t).Mutex("k", TTL(10*time.Minute)))
		time.Sleep(time.Second / 2)
		require.NoError(t, held.Unlock(t.Context()))
		lease := granted(got)
		require.NotNil(t, lease)
		lasts := f.pttl(t, "k")
		require.Less(t, lasts, time.Minute)
		left := time.Until(lease.Deadline())
		assert.LessOrEqual(t, left, lasts-margin(lasts))
		assert.Greater(t, left, lasts/2)
		lost := lease.Context()
		f.set(func() { f.before = func(context.Context, driver.Command) error { return errLostReply } })
		<-lost.Done()
		assert.True(t, f.Exists("k"))
	})
}

// Nor is it for longer than the TTL, which is all that the server arms, where the place would have been kept for longer.
func TestGrantIsForNoLongerThanTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		const ttl = 2 * time.Second
		lease := lateGrant(t, f, f.client(t).Mutex("k", TTL(ttl)))
		assert.LessOrEqual(t, time.Until(lease.Deadline()), f.pttl(t, "k")-margin(ttl))
	})
}

// A request of the waiter that was not answered leaves it the place that it had, and it is told of the grant to that.
func TestGrantAfterARequestThatWasNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := must(t, f.client(t).Mutex("k"))
		c := f.client(t)
		got := background(t, c.Mutex("k"))
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if mutexFamily.acquire.runs(cmd) {
					return errLostReply
				}
				return nil
			}
		})
		c.hub.wakeAll()
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, held.Unlock(t.Context())) // while it repeats that
		time.Sleep(time.Second)
		assert.NotNil(t, granted(got))
	})
}

// A lease that would be over soon is not reported: the waiter asks, which arms the whole TTL.
func TestGrantOfWhichLittleIsLeftIsNoLeaseYet(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		a, err := f.client(t).Mutex("k").begin(t.Context(), Owner{})
		require.NoError(t, err)
		defer a.end()
		a.stand = standing{seq: "1", sent: now(), life: DefaultTTL}
		time.Sleep(DefaultTTL*2/3 - margin(DefaultTTL) + time.Millisecond)
		lease, err := a.accept(wakeUp{seq: "1"})
		assert.NoError(t, err)
		assert.Nil(t, lease)
	})
}

func TestGrantThatOutlastsTheLeaseIsReleasedAfterAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		c := f.client(t)
		got := background(t, c.Mutex("k", Retry(Constant(20*time.Second))))
		time.Sleep(19 * time.Second)
		c.hub.wakeAll() // it asks for a place for a few seconds, and has one for longer
		synctest.Wait()
		require.NoError(t, held.Unlock(t.Context()))
		lease := granted(got)
		require.NotNil(t, lease)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return errLostReply }
		})
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		time.Sleep(5 * time.Second)
		f.set(func() { f.before = nil })
		time.Sleep(cleanupPause)
		assert.False(t, f.Exists("k"), "%v left", f.TTL("k"))
	})
}
