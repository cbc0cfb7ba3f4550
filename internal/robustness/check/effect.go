package check

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// An Effect is what a fault may do to the laws.
type Effect struct {
	// Breaks has the laws that it may break, and the documented condition under which
	// it does. Where a lock need not exclude, all laws are off that rest on it: I1, I2,
	// I9, Linearizable (also on I3), Honest and Reading.
	Breaks map[history.Law]string
	// Lingers is for how long it does so after it was healed, on top of the longest TTL.
	Lingers time.Duration
}

// excuse returns why the effect may break the law, and whether it may.
func (e Effect) excuse(law history.Law) (string, bool) {
	if because, ok := e.Breaks[law]; ok {
		return because, true
	}
	var others []history.Law
	switch law {
	case history.Exclusion, history.LossFirst, history.ReadWrite, Honest, Reading:
		others = []history.Law{history.Exclusion, history.LossFirst, history.ReadWrite}
	case Linearizable:
		others = []history.Law{history.Exclusion, history.LossFirst, history.ReadWrite, history.Fencing}
	}
	for _, other := range others {
		if because, ok := e.Breaks[other]; ok {
			return because, true
		}
	}
	return "", false
}

const forever = history.Time(math.MaxInt64)

// A fault is one that was injected.
type fault struct {
	name   string
	effect Effect
	active span // until its effects are over
	healed history.Time
}

func (r Round) fault(injected history.Event, healed history.Time) fault {
	f := fault{injected.Fault, r.Effects[injected.Fault], span{injected.At, healed}, healed}
	if healed != forever {
		f.active.to = healed.Add(r.LongestTTL + f.effect.Lingers + r.Poll + r.Patience)
	}
	return f
}

// hungry tells whether the machine had no time during the span. What has to be done soon
// is not to be expected then; everything else is.
func (s *seen) hungry(when span) bool {
	return slices.ContainsFunc(s.starved, func(o span) bool { return o.from <= when.to && when.from <= o.to })
}

// explain returns which fault may have broken the law then, and why; empty if none may.
func (s *seen) explain(law history.Law, when span) string {
	for _, f := range s.faults {
		if because, ok := f.effect.excuse(law); ok && f.active.from <= when.to && when.from <= f.active.to {
			return fmt.Sprintf("%s: %s", f.name, because)
		}
	}
	return ""
}

// quiet tells whether no fault has an effect at any time of the span, and the machine has
// time.
func (s *seen) quiet(when span) bool {
	if s.hungry(when) {
		return false
	}
	for _, f := range s.faults {
		if f.active.from <= when.to && when.from <= f.active.to {
			return false
		}
	}
	return true
}

// over tells whether all faults were healed before the span, whatever they have left behind,
// and the machine has time.
func (s *seen) over(when span) bool {
	return !s.hungry(when) && !slices.ContainsFunc(s.faults, func(f fault) bool { return when.from <= f.healed })
}

// undisturbed returns the parts of the span in which everything has its usual time: no
// fault is active, nor does the lock recover from one.
func (s *seen) undisturbed(when span) []span {
	parts := []span{when}
	for _, f := range s.faults {
		disturbed := f.active
		if disturbed.to != forever {
			// For what is late by less than patience, patience is had anyway.
			disturbed.to = disturbed.to.Add(-s.round.Patience)
		}
		var left []span
		for _, p := range parts {
			if !p.meets(disturbed) {
				left = append(left, p)
				continue
			}
			if p.from < disturbed.from {
				left = append(left, span{p.from, disturbed.from})
			}
			if disturbed.to < p.to {
				left = append(left, span{disturbed.to, p.to})
			}
		}
		parts = left
	}
	return parts
}
