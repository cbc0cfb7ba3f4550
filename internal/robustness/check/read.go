package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// seen is what the files of a round tell.
type seen struct {
	round Round
	// attempts are those at each lock, in the order in which they were made.
	attempts map[string][]*attempt
	// ends has when each process was last heard of.
	ends   []history.Time
	faults []fault
	// starved is when the machine had no time, and a while after that.
	starved []span
	// samples and probes are those which show a violation, and probed the locks that
	// were tried in the end, with when that first was.
	samples, probes []history.Event
	probed          map[string]history.Time
	// thought is how long it has been tried to put leases in order.
	thought time.Duration
}

// read takes in all events, and counts them.
func (r Round) read(report *Report) (*seen, error) {
	s := &seen{round: r, attempts: map[string][]*attempt{}, probed: map[string]history.Time{}}
	open := map[string][]history.Event{} // faults that are not healed yet
	known := map[operation]*attempt{}
	for process, path := range r.Files {
		s.ends = append(s.ends, 0)
		err := history.ReadFile(path, func(e history.Event) error {
			s.ends[process] = max(s.ends[process], e.At)
			if e.Worker != "" {
				id := operation{e.Worker, e.Op}
				a := known[id]
				if a == nil {
					a = &attempt{operation: id, process: process}
					known[id] = a
				}
				a.add(e)
				s.look(a, e)
				report.count(a, e)
				return nil
			}
			switch e.What {
			case history.Injected:
				report.Faults[e.Fault]++
				open[e.Fault] = append(open[e.Fault], e)
			case history.Healed:
				if began := open[e.Fault]; len(began) > 0 {
					open[e.Fault] = began[1:]
					s.faults = append(s.faults, r.fault(began[0], e.At))
				}
			case history.Sampled:
				report.Samples++
				report.Keys += e.Keys
				if len(e.Immortal) > 0 {
					s.samples = append(s.samples, e)
				}
			case history.Starved:
				s.starved = append(s.starved, span{e.Since, e.At.Add(r.LongestTTL + r.Poll + r.Patience)})
				report.Starved += e.At.Sub(e.Since)
			case history.Probed:
				report.Probes++
				s.probed[e.Name] = cmp.Or(s.probed[e.Name], e.At)
				if e.Error != "" || e.At.Sub(e.Since) > r.acquirableWithin() {
					s.probes = append(s.probes, e)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, began := range open {
		for _, e := range began {
			s.faults = append(s.faults, r.fault(e, forever))
		}
	}
	inherit(known, report)
	for a := range maps.Values(known) {
		if a.asked != 0 { // else only the end of its first line was lost
			s.attempts[a.name] = append(s.attempts[a.name], a)
		}
	}
	for _, list := range s.attempts {
		slices.SortFunc(list, func(a, b *attempt) int {
			return cmp.Or(cmp.Compare(a.asked, b.asked), cmp.Compare(a.worker, b.worker), cmp.Compare(a.op, b.op))
		})
	}
	return s, nil
}

// names returns the locks that were used, sorted.
func (s *seen) names() []string { return slices.Sorted(maps.Keys(s.attempts)) }

// until is the latest time at which a server may have known of the attempt.
func (s *seen) until(a *attempt) history.Time {
	ttl := s.round.LongestTTL
	switch {
	case a.left:
		return a.detached.Add(ttl)
	case a.detached != 0:
		// What was made to be detached may be there besides the lease.
		return max(s.released(a), a.detached.Add(ttl))
	case a.outcome == history.Failed && a.before != nil:
		// Until its own TTL has passed it may be put back, for another one.
		return a.answered.Add(2 * ttl)
	}
	return s.released(a)
}

// released is until for a lease that was not detached.
func (s *seen) released(a *attempt) history.Time {
	ttl := s.round.LongestTTL
	switch {
	case a.release != unanswered:
		return a.unlocked
	case a.unlocked != 0:
		return a.unlocked.Add(ttl)
	case a.ended != 0 && a.unlocking == 0:
		return a.ended.Add(ttl)
	case a.outcome == history.Refused && a.try:
		return a.answered
	case a.gaveUp():
		return a.answered.Add(s.round.Patience)
	case a.outcome == history.Failed:
		return a.answered.Add(ttl)
	}
	return s.ends[a.process].Add(ttl)
}

// acquirableWithin is how soon a lock has to be had when all faults are healed.
func (r Round) acquirableWithin() time.Duration {
	var lingers time.Duration
	for _, e := range r.Effects {
		lingers = max(lingers, e.Lingers)
	}
	return r.LongestTTL + lingers + r.Poll + r.Patience
}
