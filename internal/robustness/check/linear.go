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
	patient = 5 * time.Second
)

// linear finds leases that no one order explains, in which each is taken and given up at
// an instant at which its caller was being answered, and tokens grow.
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
		result, info := porcupine.CheckOperationsVerbose(lockModel, steps, patient)
		switch result {
		case porcupine.Unknown:
			unjudged += len(part)
		case porcupine.Illegal:
			a := stuck(steps, info)
			find(Linearizable, span{a.asked, a.answered}, fmt.Sprintf("after what came before, %v cannot have been granted the lock nor given it up when it did", a), a)
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
	ends bool
}

// stepsOf returns the steps of the leases. One that was not given up has run out at some
// time after it was last seen to be held.
func stepsOf(leases []*attempt) []porcupine.Operation {
	var steps []porcupine.Operation
	for i, a := range leases {
		begins := porcupine.Operation{ClientId: i, Input: step{attempt: a}, Call: int64(a.asked), Return: int64(a.answered)}
		ends := porcupine.Operation{ClientId: i, Input: step{a, true}, Call: int64(a.asked), Return: int64(forever)}
		if certain, ok := a.certain(); ok {
			ends.Call = int64(certain.to)
		}
		if a.release == succeeded {
			ends.Return = int64(a.unlocked)
		}
		steps = append(steps, begins, ends)
	}
	return steps
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
		if in.ends {
			return s.end(in.attempt)
		}
		return s.begin(in.attempt)
	},
	Equal: func(a, b any) bool {
		s, t := a.(lockState), b.(lockState)
		return s.largest == t.largest && maps.Equal(s.held, t.held)
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
}

func (s lockState) begin(a *attempt) (bool, lockState) {
	for _, o := range s.held {
		if o.excludes(a) {
			return false, s
		}
	}
	if a.token != 0 {
		if s.largest != nil && !inOrder(s.largest, a) {
			return false, s
		}
		s.largest = larger(s.largest, a)
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
