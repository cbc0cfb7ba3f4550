package nemesis

import (
	"context"
	"fmt"

	"github.com/golocker/golocker/internal/servertest"
)

// disconnections are servers that do not know their clients, or their scripts, any more.
func disconnections() []Fault {
	return []Fault{
		{Name: "client-kill-normal", Kinds: everywhere, Inject: onServer(killClients("normal"))},
		{Name: "client-kill-pubsub", Kinds: everywhere, Inject: onServer(killClients("pubsub"))},
		{Name: "script-flush", Kinds: everywhere, Inject: onServer(flushScripts)},
		{Name: "maxclients", Kinds: asked, Inject: onServer(letNobodyIn)},
	}
}

// killClients ends the connections of a type again and again.
func killClients(kind string) strike {
	return func(ctx context.Context, s *Scene, srv *servertest.Server) (Heal, error) {
		kill := func() (int64, error) {
			reply, err := srv.Do("CLIENT", "KILL", "TYPE", kind)
			killed, _ := reply.(int64)
			return killed, err
		}
		ctx, cancel := context.WithTimeout(ctx, s.TTL)
		defer cancel()
		err := servertest.Await(ctx, func() error {
			killed, err := kill()
			if err == nil && killed == 0 {
				err = fmt.Errorf("nemesis: %s has no %s client", srv.Addr, kind)
			}
			return err
		})
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrBusy, err)
		}
		if err != nil {
			return nil, err
		}
		return repeat(s, func() error {
			_, err := kill()
			return err
		}), nil
	}
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
