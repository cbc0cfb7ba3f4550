package locker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestSnapshotShowsLeasesAndWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		assert.Equal(t, Snapshot{}, c.Snapshot())
		began := time.Now()
		m := c.Mutex("m", Fenced(), TTL(time.Minute))
		held, err := m.Lock(t.Context())
		require.NoError(t, err)
		x := c.Mutex("x", Reentrant(), As(NamedOwner("me")))
		first, err := x.Lock(t.Context())
		require.NoError(t, err)
		_, err = x.Lock(t.Context())
		require.NoError(t, err)
		_, err = f.client(t).Mutex("far").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		for range 2 {
			go m.Lock(t.Context())
			go c.Mutex("far").Lock(t.Context())
		}
		go c.Mutex("far", ForReading()).Lock(t.Context()) // fails: another kind of lock
		time.Sleep(time.Second)

		s := c.Snapshot()
		require.Len(t, s.Leases, 2)
		assert.Equal(t, LeaseInfo{
			LockInfo: LockInfo{Name: "m", Mode: Exclusive, Fenced: true, TTL: time.Minute}, Token: held.Token(),
			Since: began, Deadline: held.Deadline(), Handles: 1,
		}, s.Leases[0])
		assert.Equal(t, "x", s.Leases[1].Name)
		assert.Equal(t, first.tenure.owner, s.Leases[1].Owner)
		assert.Equal(t, 2, s.Leases[1].Handles)
		far := LockInfo{Name: "far", Mode: Exclusive, TTL: DefaultTTL}
		since := began.Add(time.Second)
		assert.Equal(t, []WaitingInfo{
			{far, since, s.Waiters[0].InLine}, {far, since, !s.Waiters[0].InLine},
			{m.info(), since, s.Waiters[2].InLine}, {m.info(), since, !s.Waiters[2].InLine},
		}, s.Waiters)

		require.NoError(t, held.Unlock(t.Context()))
		synctest.Wait()
		assert.Len(t, c.Snapshot().Waiters, 3)
		require.NoError(t, c.Close())
		assert.Equal(t, Snapshot{}, c.Snapshot())
	})
}

// Wherever the watchdog has a lease just now, it is shown.
func TestSnapshotMissesNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		const n = 50
		for i := range n {
			ttl := time.Duration(1+i%40) * time.Second
			_, err := c.Mutex(fmt.Sprint(i), TTL(ttl)).Lock(t.Context())
			require.NoError(t, err)
		}
		for range 150 {
			time.Sleep(37 * time.Millisecond)
			require.Len(t, c.Snapshot().Leases, n)
		}
	})
}

func TestSnapshotShowsAFailingRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, err := c.Mutex("k", TTL(10*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(mutexFamily.renew, errLostReply) })
		time.Sleep(5 * time.Second)
		s := c.Snapshot()
		require.Len(t, s.Leases, 1)
		assert.True(t, errors.Is(s.Leases[0].RenewErr, errLostReply))
		<-lease.Context().Done()
		assert.Empty(t, c.Snapshot().Leases)
		f.set(func() { f.before = nil })
	})
}

// Of several failures it shows the one that tells most: a refusal that will not pass by itself, or else the last that the
// server has had a part in.
func TestSnapshotShowsTheRenewalErrorThatTellsMost(t *testing.T) {
	forbidden, unsent := driver.NewServerError("ERR forbidden by somebody"), driver.NotSent(errors.New("no route"))
	wrong := driver.NewServerError("WRONGPASS invalid username-password pair or user is disabled.")
	for name, test := range map[string]struct{ first, then, want error }{
		"no reply after a refusal":           {forbidden, errLostReply, forbidden},
		"not sent after no reply":            {errLostReply, unsent, errLostReply},
		"no reply after one not sent":        {unsent, errLostReply, errLostReply},
		"not sent, for the user was refused": {errLostReply, driver.NotSent(wrong), wrong},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				must(t, c.Mutex("k"))
				var renewals atomic.Int32
				f.set(func() {
					f.before = func(context.Context, driver.Command) error {
						if renewals.Add(1) == 1 {
							return test.first
						}
						return test.then
					}
				})
				time.Sleep(DefaultTTL * 3 / 5)
				require.GreaterOrEqual(t, renewals.Load(), int32(2))
				assert.ErrorIs(t, c.Snapshot().Leases[0].RenewErr, test.want)
				f.heal()
			})
		})
	}
}
