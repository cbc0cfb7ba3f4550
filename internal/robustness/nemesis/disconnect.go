package nemesis

import (
	"context"
	"fmt"
	"strings"

	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/servertest"
)

// disconnections are servers that do not know their clients, or their scripts, any more.
func disconnections() []Fault {
	return []Fault{
		{Name: "client-kill-normal", Kinds: everywhere, Inject: killClients("normal")},
		{Name: "client-kill-pubsub", Kinds: everywhere, Inject: killClients("pubsub")},
		{Name: "script-flush", Kinds: everywhere, Inject: onServer(flushScripts)},
		{Name: "maxclients", Kinds: alone, Inject: onServer(letNobodyIn)},
	}
}

// killClients ends the connections of a type again and again.
func killClients(kind string) func(context.Context, *Scene) (Heal, error) {
	return func(ctx context.Context, s *Scene) (Heal, error) {
		servers, release, err := s.hosts()
		if err != nil {
			return nil, err
		}
		kill := func() (killed int64, err error) {
			for _, srv := range servers {
				n, err := killClientsOf(srv, kind)
				if err != nil {
					return killed, err
				}
				killed += n
			}
			return killed, nil
		}
		trying, cancel := context.WithTimeout(ctx, s.TTL)
		defer cancel()
		err = servertest.Await(trying, func() error {
			killed, err := kill()
			if err == nil && killed == 0 {
				err = fmt.Errorf("nemesis: there is no %s client", kind)
			}
			return err
		})
		if err != nil {
			release()
			return nil, fmt.Errorf("%w: %w", ErrBusy, err)
		}
		stop := repeat(s, func() error {
			_, err := kill()
			return err
		})
		return func(ctx context.Context) error {
			defer release()
			return stop(ctx)
		}, nil
	}
}

// killClientsOf ends the connections of a type to one server, but for those of Sentinels and of
// this process.
func killClientsOf(srv *servertest.Server, kind string) (killed int64, err error) {
	list, err := srv.Do("CLIENT", "LIST", "TYPE", kind)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(fmt.Sprint(list)) {
		if strings.Contains(line, " name=sentinel-") || strings.Contains(line, " name="+servertest.ControlUser+" ") {
			continue
		}
		id := strings.TrimPrefix(strings.Fields(line)[0], "id=")
		reply, err := srv.Do("CLIENT", "KILL", "ID", id)
		if err != nil {
			return killed, err
		}
		n, _ := reply.(int64)
		killed += n
	}
	return killed, nil
}

// hosts claims servers that have clients: in a Cluster each has some of a worker's
// connections, and nobody can tell which has its subscription.
func (s *Scene) hosts() ([]*servertest.Server, func(), error) {
	if s.Rig.Kind != rig.Cluster {
		return s.victims()
	}
	claimed, release, err := s.claim(len(s.Rig.Servers), addresses(s.Rig.Servers)...)
	return addressed(s.Rig.Servers, claimed), release, err
}

// flushScripts makes a server forget all scripts, again and again.
func flushScripts(_ context.Context, s *Scene, srv *servertest.Server) (Heal, error) {
	flush := func() error {
		_, err := srv.Do("SCRIPT", "FLUSH")
		return err
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return repeat(s, flush), nil
}

// repeat does something again and again until it fails or is healed, which returns the
// error.
func repeat(s *Scene, do func() error) Heal {
	var failed error
	stop := every(s.TTL/10, func(context.Context) {
		if failed == nil {
			failed = do()
		}
	})
	return func(context.Context) error {
		stop()
		return failed
	}
}

// letNobodyIn ends all connections and refuses new ones, but for a few.
func letNobodyIn(_ context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
	reply, err := srv.Do("CONFIG", "GET", "maxclients")
	if err != nil {
		return nil, err
	}
	pair, _ := reply.([]any)
	if len(pair) != 2 {
		return nil, fmt.Errorf("nemesis: CONFIG GET maxclients on %s replied %v", srv.Addr, reply)
	}
	heal := func(context.Context) error { return set(srv, "maxclients", fmt.Sprint(pair[1])) }
	if err := set(srv, "maxclients", "3"); err != nil {
		return nil, err
	}
	for _, kind := range []string{"normal", "pubsub"} {
		if _, err := srv.Do("CLIENT", "KILL", "TYPE", kind); err != nil {
			return nil, fmt.Errorf("%w, %w", err, heal(context.Background()))
		}
	}
	return heal, nil
}
