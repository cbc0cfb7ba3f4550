package nemesis

import (
	"context"

	"github.com/golocker/golocker/internal/robustness/rig"
)

// outages are servers away that no lock is at, so that nothing is lost: those that would take a
// master's place, and those that watch over it.
func outages() []Fault {
	watched := []rig.Kind{rig.Sentinel, rig.Cluster}
	return []Fault{
		{Name: "replica-kill", Kinds: watched, Inject: withoutReplica(kill)},
		{Name: "replica-stop", Kinds: watched, Inject: withoutReplica(stop)},
		{Name: "sentinel-kill", Kinds: []rig.Kind{rig.Sentinel}, Inject: withoutSentinels(kill, 3)},
		// One only: those that stood still do nothing for half a minute, and two of them
		// would keep the third from a failover.
		{Name: "sentinel-stop", Kinds: []rig.Kind{rig.Sentinel}, Inject: withoutSentinels(stop, 1)},
	}
}

// withoutReplica takes the replica of a master away.
func withoutReplica(away outage) func(context.Context, *Scene) (Heal, error) {
	return func(ctx context.Context, s *Scene) (Heal, error) {
		master, release, err := s.aMaster(ctx)
		if err != nil {
			return nil, err
		}
		replica, err := s.replicaOf(master)
		if err != nil {
			release()
			return nil, err
		}
		return s.comesBack(release, away(replica)), nil
	}
}

// withoutSentinels takes up to n of the Sentinels away.
func withoutSentinels(away outage, n int) func(context.Context, *Scene) (Heal, error) {
	return func(ctx context.Context, s *Scene) (Heal, error) {
		_, release, err := s.aMaster(ctx) // so that there is no failover meanwhile
		if err != nil {
			return nil, err
		}
		var back []func()
		all := s.Rig.Sentinels.Sentinels
		first := s.intN(len(all))
		for i := range 1 + s.intN(n) {
			back = append(back, away(all[(first+i)%len(all)]))
		}
		return s.comesBack(release, back...), nil
	}
}

// comesBack has servers that are away come back.
func (s *Scene) comesBack(release func(), back ...func()) Heal {
	return func(ctx context.Context) error {
		defer release()
		for _, f := range back {
			f()
		}
		return complete(ctx, s.Rig)
	}
}
