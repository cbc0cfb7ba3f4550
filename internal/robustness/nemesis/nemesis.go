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
	// it. Waking (I4) and order (I8) are about deployments that no fault concerns, and
	// are not named here.
	Allows []Allowance
	// Lingers is for how long its effects last after it was healed, on top of the
	// longest TTL in use; it is 0 but for steps of a clock.
	Lingers time.Duration
	// Inject brings it about and returns how to undo it, once that is so. When it fails
	// it has left nothing to undo. ErrBusy means that all that it could be done to is
	// under another fault.
	Inject func(ctx context.Context, s *Scene) (Heal, error)
}

// A Heal undoes a fault. It returns when that has been done: servers run and answer,
// and Sentinels and Clusters agree. Its context only bounds the time.
type Heal func(ctx context.Context) error

// An Allowance is a documented condition under which a law of locks does not hold.
type Allowance struct {
	Kinds   []rig.Kind
	Laws    []history.Law
	Because string
}

// On reports whether the fault can be brought about on that kind of deployment.
func (f Fault) On(kind rig.Kind) bool { return slices.Contains(f.Kinds, kind) }

// Allowed returns the laws that it may break there, each with the reason.
func (f Fault) Allowed(kind rig.Kind) map[history.Law]string {
	laws := map[history.Law]string{}
	for _, a := range f.Allows {
		if slices.Contains(a.Kinds, kind) {
			for _, law := range a.Laws {
				laws[law] = a.Because
			}
		}
	}
	return laws
}

// All returns the whole catalogue, in a fixed order.
func All() []Fault {
	return nil
}

// On returns the faults that can be brought about on a kind of deployment.
func On(kind rig.Kind) []Fault {
	return slices.DeleteFunc(All(), func(f Fault) bool { return !f.On(kind) })
}
