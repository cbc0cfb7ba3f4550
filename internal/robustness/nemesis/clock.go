package nemesis

import (
	"context"
	"time"

	"github.com/golocker/golocker/internal/robustness/rig"
)

const (
	stepForward = time.Minute
	stepBack    = 2 * time.Minute
)

// clockFaults are steps of the wall clock of one server.
func clockFaults() []Fault {
	forgets := []Allowance{
		{single, exclusion, "a server whose clock is set forward ends leases early"},
		{quorum, exclusion, "a node whose clock is set forward ends leases early, which counts where others do not have them"},
	}
	needs := rig.Needs{Clock: true}
	return []Fault{
		{Name: "clock-forward", Kinds: alone, Needs: needs, Inject: step(stepForward, true), setsClock: true, Allows: forgets},
		{Name: "clock-back", Kinds: alone, Needs: needs, Inject: step(-stepBack, false), setsClock: true, Allows: forgets},
		{Name: "clock-back-for-good", Kinds: alone, Needs: needs, Inject: step(-stepBack, true), Lingers: stepBack, setsClock: true},
	}
}

// step sets the clock of the rig's first server by d. For good means that it is left so:
// to set it back would be another step.
func step(d time.Duration, forGood bool) func(context.Context, *Scene) (Heal, error) {
	return func(_ context.Context, s *Scene) (Heal, error) {
		first := s.Rig.Servers[0]
		if s.Rig.Kind == rig.Single && s.Rig.Primary() != first {
			return nil, ErrBusy
		}
		release, err := s.claimAll(first.Addr)
		if err != nil {
			return nil, err
		}
		s.setClock(d)
		return func(context.Context) error {
			defer release()
			if !forGood {
				s.setClock(-d)
			}
			return nil
		}, nil
	}
}

// setClock moves the rig's clock.
func (s *Scene) setClock(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += by
	s.Rig.Clock.Set(s.offset)
}
