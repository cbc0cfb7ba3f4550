package starvation_test

import (
	"fmt"
	"slices"
	"time"
)

// figures are what was measured.
type figures struct {
	contexts []time.Duration // how late contexts ended
	timers   []time.Duration // how late plain timers were that were set to the same times
	leads    []time.Duration // how long after a context's end somebody else had the lock

	late     int // contexts, while the plain timer was in time
	bothLate int // contexts and timers: the process had no processor
	running  int // contexts that had not ended when somebody else had the lock
	beside   int // leases that were valid then
}

func (f *figures) add(h *holding) {
	ended, next := <-h.ended, <-h.next
	late, timer := ended.Sub(h.deadline), h.timer.Sub(h.deadline)
	f.contexts = append(f.contexts, late)
	f.timers = append(f.timers, timer)
	f.leads = append(f.leads, next.at.Sub(ended))
	switch {
	case late > margin() && timer > margin():
		f.bothLate++
	case late > margin():
		f.late++
	}
	if next.running {
		f.running++
	}
	if next.valid {
		f.beside++
	}
}

func (f *figures) String() string {
	return fmt.Sprintf(`%d leases were lost
contexts ended after the deadline: %s
plain timers set to it fired:      %s
the next holder came after that:   %s
%d contexts ended more than %v after the deadline; %d more with a plain timer that was as late
when the next holder had the lock, %d leases were valid and %d contexts had not ended`,
		len(f.contexts), spread(f.contexts), spread(f.timers), spread(f.leads), f.late, margin(), f.bothLate, f.beside, f.running)
}

// spread tells of the least, some quantiles, and the most.
func spread(list []time.Duration) string {
	list = slices.Sorted(slices.Values(list))
	at := func(q float64) time.Duration { return list[int(q*float64(len(list)-1))].Round(10 * time.Microsecond) }
	return fmt.Sprintf("min %v, p50 %v, p99 %v, p99.9 %v, max %v", at(0), at(0.5), at(0.99), at(0.999), at(1))
}
