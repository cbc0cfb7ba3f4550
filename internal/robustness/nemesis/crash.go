package nemesis

import (
	"context"
	"fmt"
	"time"

	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/servertest"
)

// crashes are servers that die by SIGKILL and are started again.
func crashes() []Fault {
	return []Fault{
		{Name: "server-kill-empty", Kinds: everywhere, Inject: onServer(killEmpty), loses: true, Allows: []Allowance{
			{[]rig.Kind{rig.Single, rig.Sentinel, rig.Cluster}, exclusion, "a server without persistence forgets its leases when it is restarted"},
		}},
		{Name: "server-kill-aof", Kinds: alone, Inject: onServer(killPersistent)},
		{Name: "loading", Kinds: alone, Inject: onServer(load)},
	}
}

// killEmpty kills a server that keeps nothing on disk.
func killEmpty(_ context.Context, s *Scene, srv *servertest.Server) (Heal, error) {
	srv.Kill()
	return func(ctx context.Context) error {
		srv.Restart()
		return complete(ctx, s.Rig)
	}, nil
}

// killPersistent kills a server that has everything on disk that it has answered.
func killPersistent(ctx context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
	if err := persist(ctx, srv); err != nil {
		return nil, err
	}
	srv.Kill()
	return func(context.Context) error {
		srv.RestartWith(servertest.Persist())
		return forgetfulAgain(srv)
	}, nil
}

// persist makes a server that runs write down everything, before it answers.
func persist(ctx context.Context, srv *servertest.Server) error {
	if err := set(srv, "appendfsync", "always", "appendonly", "yes"); err != nil {
		return err
	}
	return servertest.Await(ctx, func() error {
		for _, line := range []string{"aof_enabled:1", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_last_bgrewrite_status:ok"} {
			if err := srv.InfoSays("persistence", line); err != nil {
				return err
			}
		}
		return nil
	})
}

func forgetfulAgain(srv *servertest.Server) error { return set(srv, "appendonly", "no") }

// load restarts a server which takes its time to read what it has on disk. It replies
// LOADING meanwhile, longer than leases last.
func load(ctx context.Context, s *Scene, srv *servertest.Server) (Heal, error) {
	const keys = 2000
	if err := talk(ctx, srv, "SELECT "+ballastDB, fmt.Sprintf("DEBUG POPULATE %d ballast 10", keys)); err != nil {
		return nil, err
	}
	if err := persist(ctx, srv); err != nil {
		return nil, err
	}
	perKey := s.between(s.TTL*5/4, s.TTL*3/2) / keys
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		srv.RestartWith(servertest.Persist(),
			servertest.Config("key-load-delay", fmt.Sprint(perKey.Microseconds())),
			servertest.Config("loading-process-events-interval-bytes", "1024"))
	}()
	heal := func(ctx context.Context) error {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := talk(ctx, srv, "SELECT "+ballastDB, "FLUSHDB"); err != nil {
			return err
		}
		return forgetfulAgain(srv)
	}
	if err := awaitRefusal(ctx, srv, "LOADING", ready); err != nil {
		return nil, fmt.Errorf("nemesis: %s does not load: %w, %w", srv.Addr, err, heal(ctx))
	}
	return heal, nil
}

// awaitRefusal waits until the server refuses a read with that code. It gives up when
// over is closed.
func awaitRefusal(ctx context.Context, srv *servertest.Server, code string, over <-chan struct{}) error {
	for {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		err := talk(asking, srv, "GET any")
		cancel()
		if refusal, ok := isRefusal(err); ok && refusal == code {
			return nil
		}
		select {
		case <-over:
			return fmt.Errorf("it never replied %s, last: %w", code, err)
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", ctx.Err(), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
