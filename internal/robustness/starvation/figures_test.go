package starvation_test

import (
	"fmt"
	"slices"
	"time"
)

// figures are what was measured.
type figures struct {
	contexts []time.Duration // how late contexts ended
	timers   []time.Duration // how late plain contexts were whose timers were set to the same times
	leads    []time.Duration // how long after a context's end somebody else had the lock

	// beside counts the leases that were valid when somebody else had the lock. There is
	// no excuse for one.
	beside int
	// early counts contexts that ended before the deadline, as of a lease that was given up
	// for no reason.
	early int
	// late counts contexts that ended more than the margin after the deadline, and running
	// those that had not ended when somebody else had the lock.
	late, running int
	// So many of each there were when this process got no processor for so long that plain
	// contexts were late by half of the margin. A context cannot end in a process
	// that does not run; that is what Valid is for.
	stalledLate, stalledRunning int
}

func (f *figures) add(round []*holding) {
	stalled := slices.ContainsFunc(round, func(h *holding) bool { return h.timer.Sub(h.deadline) > margin()/2 })
	for _, h := range round {
		ended, next := <-h.ended, <-h.next
		late := ended.Sub(h.deadline)
		f.contexts = append(f.contexts, late)
		f.timers = append(f.timers, h.timer.Sub(h.deadline))
		f.leads = append(f.leads, next.at.Sub(ended))
		if next.valid {
			f.beside++
		}
		if late < 0 {
			f.early++
		}
		count(late > margin(), stalled, &f.late, &f.stalledLate)
		count(next.running, stalled, &f.running, &f.stalledRunning)
	}
}

func count(is, stalled bool, n, whenStalled *int) {
	switch {
	case is && stalled:
		*whenStalled++
	case is:
		*n++
	}
}

func (f *figures) String() string {
	n := len(f.contexts)
	return fmt.Sprintf(`%d leases of %v were lost
contexts ended after the deadline: %s
plain contexts with a timer did:   %s
the next holder came after that:   %s
%d of %d contexts ended within %v of the deadline; of the others %d ended where plain ones were late, too; %d ended before it
%d of %d leases were not valid when the next holder had the lock, and %d contexts had ended; of the others %d had not where plain ones were late, too`,
		n, *ttl, spread(f.contexts), spread(f.timers), spread(f.leads),
		n-f.late-f.stalledLate, n, margin(), f.stalledLate, f.early,
		n-f.beside, n, n-f.running-f.stalledRunning, f.stalledRunning)
}

// spread tells of the least, some quantiles, and the most.
func spread(list []time.Duration) string {
	list = slices.Sorted(slices.Values(list))
	at := func(q float64) time.Duration { return list[int(q*float64(len(list)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("min %v, p50 %v, p99 %v, p99.9 %v, max %v", at(0), at(0.5), at(0.99), at(0.999), at(1))
}
