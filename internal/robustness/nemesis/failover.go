package nemesis

import (
	"context"
	"errors"

	"github.com/golocker/golocker/internal/robustness/rig"
)

// replicated are the kinds on which a replica takes the place of a master by itself.
var replicated = []rig.Kind{rig.Sentinel, rig.Cluster}

// failovers are replicas that take the place of their master, and slots that take another.
func failovers() []Fault {
	return []Fault{
		{Name: "failover-replicaof", Kinds: single, Needs: rig.Needs{Standby: true}, Inject: replaceByHand, loses: true, Allows: []Allowance{
			{single, exclusion, "a replica that is promoted does not know what had not been replicated"},
		}},
	}
}

// replaceByHand promotes the standby, leads the workers there and makes the old primary its
// replica, as an operator does who has no Sentinels; when it is healed, the other way round.
func replaceByHand(ctx context.Context, s *Scene) (Heal, error) {
	release, err := s.claimAll(addresses(s.Rig.Servers)...)
	if err != nil {
		return nil, err
	}
	heal := func(ctx context.Context) error {
		defer release()
		return s.replacePrimary(ctx)
	}
	if err := s.replacePrimary(ctx); err != nil {
		return nil, errors.Join(err, heal(ctx))
	}
	return heal, nil
}

func (s *Scene) replacePrimary(ctx context.Context) error {
	old, next := s.Rig.Primary(), s.Rig.Servers[0]
	if next == old {
		next = s.Rig.Servers[1]
	}
	if _, err := next.Do("REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	s.Rig.Lead(next)
	if err := rig.Follow(ctx, old, next); err != nil {
		return err
	}
	// Where an address moves to another host, no connection goes on on the old one.
	for _, kind := range []string{"normal", "pubsub"} {
		if _, err := old.Do("CLIENT", "KILL", "TYPE", kind); err != nil {
			return err
		}
	}
	return nil
}
