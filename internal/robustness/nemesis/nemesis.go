// Package nemesis is the catalogue of faults that are injected into a rig and its
// workers: what each does, what it may break and for how long, and how it is undone.
package nemesis

import (
	"context"
	"slices"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/rig"
)

// A Fault is one way in which a worker, a server or a line between them fails.
type Fault struct {
	// Name is unique, such as "server-kill-empty".
	Name string
	// Kinds are the deployments on which it can be brought about.
	Kinds []rig.Kind
	// Needs is what it takes of the rig.
	Needs rig.Needs
	// Allows says which laws it may break, and why. What is not named holds in spite of
	// it. Waking (I4) and order (I8) are about times without faults, and are not named.
	Allows []Allowance
	// Lingers is for how long its effects last after it was healed, on top of the
	// longest TTL in use; it is 0 but for clocks that are not set right again.
	Lingers time.Duration
	// Inject brings it about and returns how to undo it, once that is so. When it fails
	// it has left nothing to undo; if that is an ErrBusy, it may succeed later.
	Inject func(ctx context.Context, s *Scene) (Heal, error)

	// A server that loses counters and one whose clock is set break together what
	// neither breaks alone, see Allowed.
	loses, setsClock bool
}

// A Heal undoes a fault, after it has lasted as long as its name promises. It returns
// when that is done: servers run and answer, and Sentinels and Clusters agree. Its context
// only bounds the time.
type Heal func(ctx context.Context) error

// An Allowance is a documented condition under which a law of locks does not hold.
type Allowance struct {
	Kinds   []rig.Kind
	Laws    []history.Law
	Because string
}

// On reports whether the fault can be brought about on that kind of deployment.
func (f Fault) On(kind rig.Kind) bool { return slices.Contains(f.Kinds, kind) }

// Allowed returns the laws that the fault may break there, each with the reason, in a
// round that has those other faults besides.
func (f Fault) Allowed(kind rig.Kind, besides ...Fault) map[history.Law]string {
	laws := map[history.Law]string{}
	for _, a := range f.Allows {
		if slices.Contains(a.Kinds, kind) {
			for _, law := range a.Laws {
				laws[law] = a.Because
			}
		}
	}
	if f.disorders(besides) {
		laws[history.Fencing] = "a token outlives the loss of its counter only while no server's clock stands behind it"
	}
	return laws
}

// Lasts returns for how long after it was healed the fault may break laws, on top of the
// longest TTL in use, in a round that has those other faults besides.
func (f Fault) Lasts(besides ...Fault) time.Duration {
	if f.disorders(besides) {
		// Tokens of a clock that was ahead are larger than those of the others until these
		// have caught up.
		return max(f.Lingers, stepForward)
	}
	return f.Lingers
}

// disorders tells whether tokens may be out of order because of the fault and another one.
func (f Fault) disorders(besides []Fault) bool {
	return slices.ContainsFunc(besides, func(o Fault) bool { return f.loses && o.setsClock || f.setsClock && o.loses })
}

// All returns the whole catalogue, in a fixed order.
func All() []Fault {
	return slices.Concat(
		workerFaults(), crashes(), freezes(), losses(), refusals(), disconnections(), lineFaults(), clockFaults(), failovers(), outages(), migrations(),
	)
}

// On returns the faults that can be brought about on a kind of deployment.
func On(kind rig.Kind) []Fault {
	return slices.DeleteFunc(All(), func(f Fault) bool { return !f.On(kind) })
}

var (
	everywhere = rig.Kinds
	// alone are the kinds whose servers nobody but their clients has to do with.
	alone  = []rig.Kind{rig.Single, rig.Quorum}
	single = []rig.Kind{rig.Single}
	quorum = []rig.Kind{rig.Quorum}

	exclusion = []history.Law{history.Exclusion, history.LossFirst, history.ReadWrite}
)
