package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/servertest"
)

// failovers are replicas that take the place of their master.
func failovers() []Fault {
	fault := func(name string, kind rig.Kind, inject func(context.Context, *Scene) (Heal, error)) Fault {
		lost := []Allowance{{[]rig.Kind{kind}, exclusion, "a replica that is promoted does not know what had not been replicated"}}
		return Fault{Name: name, Kinds: []rig.Kind{kind}, Inject: inject, Allows: lost, loses: true}
	}
	byHand := fault("failover-replicaof", rig.Single, replaceByHand)
	byHand.Needs.Standby = true
	return []Fault{
		byHand,
		fault("sentinel-failover", rig.Sentinel, promoteBySentinel),
		fault("sentinel-master-kill", rig.Sentinel, replaced(kill)),
		fault("sentinel-master-stop", rig.Sentinel, replaced(stop)),
		{Name: "cluster-failover", Kinds: []rig.Kind{rig.Cluster}, Inject: promoteInCluster()},
		fault("cluster-failover-force", rig.Cluster, promoteInCluster("FORCE")),
		fault("cluster-failover-takeover", rig.Cluster, promoteInCluster("TAKEOVER")),
		fault("cluster-master-kill", rig.Cluster, replaced(kill)),
		fault("cluster-master-stop", rig.Cluster, replaced(stop)),
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

// complete waits until all that a failover takes is there, if there can be one.
func complete(ctx context.Context, r *rig.Rig) error {
	switch r.Kind {
	case rig.Sentinel:
		return r.Sentinels.AwaitComplete(ctx)
	case rig.Cluster:
		return r.Nodes.AwaitComplete(ctx)
	default:
		return nil
	}
}

// aMaster claims all servers, waits until they are complete and returns one of the masters.
func (s *Scene) aMaster(ctx context.Context) (master *servertest.Server, release func(), err error) {
	release, err = s.claimAll(addresses(s.Rig.Servers)...)
	if err != nil {
		return nil, nil, err
	}
	if err = complete(ctx, s.Rig); err == nil {
		if all := masters(s.Rig.Servers); len(all) > 0 {
			return all[s.intN(len(all))], release, nil
		}
		err = errors.New("nemesis: there is no master")
	}
	release()
	return nil, nil, err
}

// An outage takes a server away and returns how it comes back.
type outage func(srv *servertest.Server) (back func())

func kill(srv *servertest.Server) func() {
	srv.Kill()
	return srv.Restart
}

func stop(srv *servertest.Server) func() {
	srv.Pause()
	return srv.Resume
}

// replaced takes a master away until its replica has taken its place. Then it comes back,
// for a moment with clients that believe in it, and follows the new one.
func replaced(away outage) func(context.Context, *Scene) (Heal, error) {
	return func(ctx context.Context, s *Scene) (Heal, error) {
		master, release, err := s.aMaster(ctx)
		if err != nil {
			return nil, err
		}
		replica, err := s.replicaOf(master)
		if err == nil {
			err = s.Rig.AllowFailover(true)
		}
		if err != nil {
			release()
			return nil, err
		}
		back := away(master)
		heal := func(ctx context.Context) error {
			defer release()
			back()
			if err := complete(ctx, s.Rig); err != nil {
				return err
			}
			return s.Rig.AllowFailover(false)
		}
		if err := awaitMaster(ctx, replica); err != nil {
			return nil, errors.Join(err, heal(ctx))
		}
		return heal, nil
	}
}

// replicaOf returns the replica of a master.
func (s *Scene) replicaOf(master *servertest.Server) (*servertest.Server, error) {
	i := slices.IndexFunc(s.Rig.Servers, func(srv *servertest.Server) bool {
		return srv != master && srv.InfoSays("replication", "master_port:"+master.Port()) == nil
	})
	if i < 0 {
		return nil, fmt.Errorf("nemesis: %s has no replica", master.Addr)
	}
	return s.Rig.Servers[i], nil
}

func awaitMaster(ctx context.Context, srv *servertest.Server) error {
	return servertest.Await(ctx, func() error { return srv.InfoSays("replication", "role:master") })
}

// promoteBySentinel has the Sentinels promote the replica, which they do without asking
// the master.
func promoteBySentinel(ctx context.Context, s *Scene) (Heal, error) {
	_, release, err := s.aMaster(ctx)
	if err != nil {
		return nil, err
	}
	heal := func(ctx context.Context) error {
		defer release()
		return complete(ctx, s.Rig)
	}
	if _, err := s.Rig.Sentinels.Promote(ctx); err != nil {
		return nil, errors.Join(err, heal(ctx))
	}
	return heal, nil
}

// promoteInCluster has a replica take its master's place, with the master's help: it puts
// off its clients until the replica has everything. By FORCE nobody asks the master, and by
// TAKEOVER nor the others.
func promoteInCluster(how ...string) func(context.Context, *Scene) (Heal, error) {
	return func(ctx context.Context, s *Scene) (Heal, error) {
		master, release, err := s.aMaster(ctx)
		if err != nil {
			return nil, err
		}
		heal := func(ctx context.Context) error {
			defer release()
			return complete(ctx, s.Rig)
		}
		replica, err := s.replicaOf(master)
		if err == nil {
			err = takeOver(ctx, replica, how...)
		}
		if err != nil {
			return nil, errors.Join(err, heal(ctx))
		}
		return heal, nil
	}
}

// takeOver makes a replica of a Cluster a master. A server gives the attempt up after
// five seconds, if the others have not agreed by then.
func takeOver(ctx context.Context, replica *servertest.Server, how ...string) error {
	for {
		if _, err := replica.Do(append([]string{"CLUSTER", "FAILOVER"}, how...)...); err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, 6*time.Second)
		err := awaitMaster(attempt, replica)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}
