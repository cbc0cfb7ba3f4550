package locker

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A schedule gives jobs in the order of their times, however they are moved and removed.
func TestSchedule(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var a schedule
		// Within a slot, in the buckets, and beyond them.
		horizon := []int64{slotLength / 4, 20 * slotLength, 2 * bucketCount * slotLength}[seed%3]
		var passed time.Duration
		random := func() time.Duration { return passed + time.Duration(r.Int64N(horizon)) }
		times := map[*job]time.Duration{}
		var all []*job
		for range 300 {
			switch j := (&job{place: notScheduled}); {
			case len(all) == 0 || r.IntN(3) == 0:
				all = append(all, j)
				times[j] = random()
				a.put(j, times[j])
			case r.IntN(10) == 0:
				first := a.first()
				for _, at := range times {
					require.LessOrEqual(t, first.at, at)
				}
				passed = max(passed, first.at-1)
				a.passed(passed)
			case r.IntN(3) == 0:
				i := r.IntN(len(all))
				j = all[i]
				a.remove(j)
				require.EqualValues(t, notScheduled, j.place)
				a.remove(j) // is out already
				delete(times, j)
				all = slices.Delete(all, i, i+1)
			default:
				j = all[r.IntN(len(all))]
				times[j] = random()
				a.put(j, times[j])
			}
		}
		require.Equal(t, len(times), a.len())
		want := make([]time.Duration, 0, a.len())
		for _, at := range times {
			want = append(want, at)
		}
		slices.Sort(want)
		for _, at := range want {
			first := a.first()
			require.Equal(t, at, first.at)
			require.Equal(t, at, times[first])
			a.remove(first)
		}
		require.Nil(t, a.first())
		require.Zero(t, a.len())
	}
}

// Of two of one slot, the later one was too far away for the buckets when it came.
func TestScheduleOfOneSlotInHeapAndInBucket(t *testing.T) {
	var a schedule
	const slot = (bucketCount + 2) * slotLength
	later, sooner := &job{}, &job{}
	a.put(later, slot+2)
	a.passed(5 * slotLength)
	a.put(sooner, slot+1)
	require.EqualValues(t, inBucket, sooner.place)
	require.Same(t, sooner, a.first())
}

// A client may be years old, with more slots behind it than an int counts on a machine of 32 bits.
func TestScheduleInOrderAfterYears(t *testing.T) {
	for back := range time.Duration(2 * bucketCount) {
		var a schedule
		passed := (math.MaxInt32 - back) * slotLength
		a.passed(passed)
		for _, slots := range []time.Duration{3 * bucketCount, 3, 1, 2} {
			a.put(&job{}, passed+slots*slotLength)
		}
		for before := passed; a.len() > 0; {
			first := a.first()
			require.Greater(t, first.at, before)
			before = first.at
			a.remove(first)
		}
	}
}
