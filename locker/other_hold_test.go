package locker

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// holdsTold returns what each request for a lock with owners has said of other holds of its owner,
// since it was asked last.
func (f *fakeDeployment) holdsTold() (told func() []string) {
	var said []string
	f.set(func() {
		f.before = func(_ context.Context, cmd driver.Command) error {
			if holdFamily.acquire.runs(cmd) {
				keys, _ := strconv.Atoi(cmd.Args[2])
				f.set(func() { said = append(said, cmd.Args[firstKey+keys+10]) })
			}
			return nil
		}
	})
	return func() (all []string) {
		f.set(func() { all, said = said, nil })
		return all
	}
}

// A walk through all holds is what an owner costs the server that may have one of them. It is
// made when the owner comes, and seldom while it waits.
func TestServerLooksForAnOwnersHoldsWhenItComesAndSeldomThen(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		_, write := f.sides(t)
		held := must(t, write)
		told := f.holdsTold()
		fresh := background(t, f.client(t).Mutex("k", ForReading()))
		time.Sleep(time.Minute)
		asked := told()
		assert.Greater(t, len(asked), 50)
		assert.NotContains(t, asked, "", "an owner that was made for the call has no other hold")
		assert.NotContains(t, asked, noHoldLately)

		known := background(t, f.client(t).Mutex("k", ForReading(), As(NewOwner())))
		time.Sleep(time.Second / 2)
		asked = told()
		assert.Equal(t, "", asked[0])
		time.Sleep(65 * time.Second)
		walks := 0
		for _, said := range told() {
			if said == "" {
				walks++
			}
		}
		assert.Equal(t, 2, walks, "since it came")
		require.NoError(t, held.Unlock(t.Context()))
		assert.NotNil(t, <-fresh)
		assert.NotNil(t, <-known)
	})
}

// An owner that waits twice, with a writer in between, has the lock once the first of the two
// is granted: the writer waits for it. The client knows that soon, also where it does not let that
// lease be re-entered for its token, and another process in time.
func TestOwnerThatIsGrantedTheLockWaitsNoMoreForWhoWaitsForIt(t *testing.T) {
	nothing := func(*testing.T, *Lease) {}
	for name, c := range map[string]struct {
		owner     Owner
		elsewhere bool
		opts      []Option
		does      func(t *testing.T, first *Lease) // before the second is granted
		within    time.Duration
	}{
		"in this process":         {NamedOwner("job 7"), false, nil, nothing, pollInterval},
		"in another one":          {NamedOwner("job 7"), true, nil, nothing, lookAgain + pollInterval},
		"with a token":            {NewOwner(), false, []Option{Fenced()}, nothing, pollInterval},
		"with a token and a name": {NamedOwner("job 7"), false, []Option{Fenced()}, nothing, pollInterval},
		"and has written": {NewOwner(), false, []Option{Fenced()}, func(t *testing.T, first *Lease) {
			w, err := first.Upgrade(t.Context())
			require.NoError(t, err)
			require.NoError(t, w.Unlock(t.Context()))
		}, pollInterval},
		"and has read once more": {NamedOwner("job 7"), false, []Option{Fenced()}, func(t *testing.T, first *Lease) {
			require.NoError(t, must(t, first.mutex).Unlock(t.Context()))
		}, pollInterval},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				_, write := f.sides(t, c.opts...)
				held := must(t, write)
				waits := func(m *Mutex) <-chan *Lease {
					got := background(t, m)
					synctest.Wait()
					return got
				}
				here := f.client(t)
				there := here
				if c.elsewhere {
					there = f.client(t)
				}
				reads := append(c.opts, ForReading(), As(c.owner))
				first := waits(here.Mutex("k", reads...))
				writer := waits(f.client(t).Mutex("k", append(c.opts, ForWriting())...))
				second := waits(there.Mutex("k", reads...))
				time.Sleep(10 * time.Second)
				require.NoError(t, held.Unlock(t.Context()))
				one := <-first
				begun := time.Now()
				c.does(t, one)
				two := <-second
				assert.LessOrEqual(t, time.Since(begun), c.within)
				assert.Nil(t, granted(writer))
				require.NoError(t, one.Unlock(t.Context()))
				require.NoError(t, two.Unlock(t.Context()))
				assert.NotNil(t, granted(writer))
			})
		})
	}
}

// Who had no hold a while ago is not looked for while it stands in the queue. Who enters the
// queue is, since a reader that wants to write comes before everybody else there.
func TestOwnerWithoutAPlaceIsLookedFor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		keys := newKeys("k")
		ask := func(id string, m mode, owner, within, reservation string) error {
			r := &request{name: "k", keys: &keys, mode: m, id: id, owner: owner, otherHold: within, tail: "|", ttl: time.Minute}
			_, _, err := c.store.acquire(t.Context(), r, place{reservation: reservation, life: time.Minute})
			return err
		}
		require.NoError(t, ask(newID(), modeRead, "a", "", ""))
		require.NoError(t, ask(newID(), modeRead, "b", "", ""))
		require.ErrorIs(t, ask(newID(), modeWrite, "w", "", newID()), ErrLocked)

		waiting, place := newID(), newID()
		require.ErrorIs(t, ask(waiting, modeRead, "c", "", place), ErrLocked)
		require.NoError(t, ask(newID(), modeRead, "a", noHoldLately, newID()), "past the queue")
		upgrade, first := newID(), newID()
		require.ErrorIs(t, ask(upgrade, modeWrite, "b", noHoldLately, first), ErrLocked)
		queue, err := f.ZMembers(keys.queue)
		require.NoError(t, err)
		assert.Equal(t, first, queue[0])
		require.ErrorIs(t, ask(newID(), modeWrite, "a", noHoldLately, newID()), ErrDeadlock)
		require.ErrorIs(t, ask(waiting, modeRead, "c", noHoldLately, place), ErrLocked)
	})
}
