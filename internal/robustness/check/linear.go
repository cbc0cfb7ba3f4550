package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/golocker/golocker/internal/robustness/history"
)

const (
	// window is how many leases are judged at once: what porcupine needs grows with the
	// square of it. If a history of leases can be put in order, so can any part of it.
	window = 300
	// patient is how long one window is thought about.
	patient = 2 * time.Second
	// most is how long all windows of a round are thought about.
	most = 30 * time.Second
)

// linear finds leases that no one order explains, in which each begins at an
// instant at which its caller was being answered, lasts for as long as it was held for
// certain, and has a token that is not behind the last.
func (s *seen) linear(name string, find finder) (unjudged int) {
	var leases []*attempt
	for _, a := range s.attempts[name] {
		if a.outcome == history.Granted {
			leases = append(leases, a)
		}
	}
	slices.SortFunc(leases, func(a, b *attempt) int { return cmp.Compare(a.answered, b.answered) })
	for len(leases) > 0 {
		part := leases[:min(window, len(leases))]
		steps := stepsOf(part)
		result, info := porcupine.Unknown, porcupine.LinearizationInfo{}
		if s.thought < most {
			begun := time.Now()
			result, info = porcupine.CheckOperationsVerbose(lockModel, steps, patient)
			s.thought += time.Since(begun)
		}
		switch result {
		case porcupine.Unknown:
			unjudged += len(part)
		case porcupine.Illegal:
			a := stuck(steps, info)
			// One that was detached is there for longer than its worker used it.
			last := max(a.answered, a.used, a.ended, a.unlocked)
			if certain, held := a.certain(); held {
				last = max(last, certain.to)
			}
			find(Linearizable, span{a.asked, last}, fmt.Sprintf("in no order of the leases around it can %v have been granted the lock when it was", a), a)
		}
		if len(part) == len(leases) {
			break
		}
		leases = leases[window/2:] // what spans two windows is in the middle of a third
	}
	return unjudged
}

// A step is what porcupine puts in order: a lease begins, or ends.
type step struct {
	*attempt
	kind stepKind
	// goesOn is the lease that lasts until this one begins, and ends by that; nil if there is
	// none.
	goesOn *attempt
}

type stepKind int

const (
	begins stepKind = iota
	ends
	// touches is the beginning of a lease of which nobody knows for how long it was
	// held: it may have ended at once.
	touches
)

// stepsOf returns the steps of the leases. A lease need not have ended at the first
// instant at which it may have, but if any order is right, so is that.
func stepsOf(leases []*attempt) []porcupine.Operation {
	begun := beginnings(leases)
	among := map[*attempt]bool{}
	for _, a := range leases {
		among[a] = true
	}
	var steps []porcupine.Operation
	for i, a := range leases {
		begin := porcupine.Operation{ClientId: i, Call: int64(begun[a].from), Return: int64(begun[a].to)}
		in := step{attempt: a, kind: begins}
		if b := a.before; b != nil && among[b] && b.heir() == a {
			if _, held := b.certain(); held {
				in.goesOn = b
			}
		}
		certain, held := a.certain()
		if !held {
			in.kind = touches
		}
		begin.Input = in
		if heir := a.heir(); !held || heir != nil && among[heir] {
			steps = append(steps, begin)
			continue
		}
		end := porcupine.Operation{ClientId: i, Input: step{attempt: a, kind: ends}, Call: int64(certain.to), Return: int64(certain.to)}
		steps = append(steps, begin, end)
	}
	return steps
}

// beginnings returns when each lease may have begun: while its caller waited, after those
// that it was held after, and in the order of tokens. It tells nothing that porcupine
// would not find, but spares it to try what cannot be.
func beginnings(leases []*attempt) map[*attempt]span {
	begun := map[*attempt]span{}
	for _, a := range leases {
		begun[a] = span{a.asked, a.answered}
	}
	held := holds(leases)
	for _, h := range held {
		s := begun[h.attempt]
		for _, o := range held {
			if o.from >= h.to {
				break
			}
			if o.attempt != h.attempt && o.excludes(h.attempt) {
				s.from = max(s.from, o.to)
			}
		}
		begun[h.attempt] = s
	}
	byToken := slices.DeleteFunc(slices.Clone(leases), func(a *attempt) bool { return a.token == 0 })
	slices.SortFunc(byToken, func(a, b *attempt) int { return cmp.Compare(a.token, b.token) })
	// Those of one token have no order among them.
	var groups [][]*attempt
	for _, a := range byToken {
		if n := len(groups); n > 0 && groups[n-1][0].token == a.token {
			groups[n-1] = append(groups[n-1], a)
		} else {
			groups = append(groups, []*attempt{a})
		}
	}
	earliest := history.Time(0)
	for _, g := range groups {
		next := earliest
		for _, a := range g {
			s := begun[a]
			s.from = max(s.from, earliest)
			begun[a] = s
			next = max(next, s.from)
		}
		earliest = next
	}
	latest := forever
	for _, g := range slices.Backward(groups) {
		next := latest
		for _, a := range g {
			s := begun[a]
			s.to = min(s.to, latest)
			begun[a] = s
			next = min(next, s.to)
		}
		latest = next
	}
	for a, s := range begun {
		if s.from > s.to { // impossible: porcupine is to say so
			begun[a] = span{a.asked, a.answered}
		}
	}
	return begun
}

// lockState is who holds a lock, and the largest tokens that were given out.
type lockState struct {
	held    map[operation]*attempt
	largest *attempt
}

// lockModel is a lock as its callers see it. It is changed by copying.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(step)
		if in.kind == ends {
			return s.end(in.attempt)
		}
		if before := in.goesOn; before != nil {
			_, s = s.end(before)
		}
		return s.begin(in.attempt, in.kind == begins)
	},
	Equal: func(a, b any) bool {
		s, t := a.(lockState), b.(lockState)
		return s.largest == t.largest && maps.Equal(s.held, t.held)
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
}

func (s lockState) begin(a *attempt, stays bool) (bool, lockState) {
	for _, o := range s.held {
		if o.excludes(a) {
			return false, s
		}
	}
	if a.token != 0 {
		if l := s.largest; l != nil && !inOrder(l, a) && !sameHold(l, a) {
			return false, s
		}
		s.largest = larger(s.largest, a)
	}
	if !stays {
		return true, s
	}
	s.held = maps.Clone(s.held)
	if s.held == nil {
		s.held = map[operation]*attempt{}
	}
	s.held[a.operation] = a
	return true, s
}

func (s lockState) end(a *attempt) (bool, lockState) {
	if s.held[a.operation] == nil {
		return false, s
	}
	s.held = maps.Clone(s.held)
	delete(s.held, a.operation)
	return true, s
}

// stuck returns the attempt that comes first of those that have no place in the longest
// order that was found.
func stuck(steps []porcupine.Operation, info porcupine.LinearizationInfo) *attempt {
	placed := map[step]bool{}
	for _, partition := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(append(partition, nil), func(a, b []porcupine.Operation) int { return cmp.Compare(len(a), len(b)) })
		for _, o := range longest {
			placed[o.Input.(step)] = true
		}
	}
	left := slices.DeleteFunc(slices.Clone(steps), func(o porcupine.Operation) bool { return placed[o.Input.(step)] })
	return slices.MinFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) }).Input.(step).attempt
}
