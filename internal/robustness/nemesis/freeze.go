package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/internal/servertest"
)

// freezes are servers that do nothing for a while, and lose nothing.
func freezes() []Fault {
	return []Fault{
		{Name: "server-stop", Kinds: everywhere, Inject: onServer(stopServer)},
		{Name: "debug-sleep", Kinds: everywhere, Inject: onServer(debugSleep)},
		{Name: "busy-script", Kinds: alone, Inject: onServer(beBusy)},
		{Name: "client-pause-all", Kinds: everywhere, Inject: onServer(pauseAll)},
		{Name: "client-pause-write", Kinds: everywhere, Inject: onServer(pauseWrite)},
	}
}

// stopServer stops a server by SIGSTOP.
func stopServer(_ context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
	srv.Pause()
	return func(context.Context) error {
		srv.Resume()
		return nil
	}, nil
}

// debugSleep makes a server sleep, some times for longer than leases last.
func debugSleep(ctx context.Context, s *Scene, srv *servertest.Server) (Heal, error) {
	d := s.between(s.TTL/2, s.TTL*3/2)
	awake := make(chan error, 1)
	sleeping, cancel := context.WithTimeout(context.Background(), d+healTimeout)
	go func() {
		defer cancel()
		awake <- talk(sleeping, srv, fmt.Sprintf("DEBUG SLEEP %.3f", d.Seconds()))
	}()
	heal := func(ctx context.Context) error {
		select {
		case err := <-awake:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := awaitSilence(ctx, srv); err != nil {
		return nil, errors.Join(err, heal(ctx))
	}
	return heal, nil
}

// awaitSilence waits until the server does not answer.
func awaitSilence(ctx context.Context, srv *servertest.Server) error {
	return servertest.Await(ctx, func() error {
		asking, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := talk(asking, srv, "PING"); err != nil {
			return nil
		}
		return fmt.Errorf("nemesis: %s answers", srv.Addr)
	})
}

// healTimeout is how long something may last that is over by itself.
const healTimeout = 30 * time.Second

// beBusy makes a server run a script that does not end until it is killed.
func beBusy(ctx context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
	if err := set(srv, "lua-time-limit", "20"); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		_ = talk(running, srv, `EVAL "while true do end" 0`) // how it ends is what killing it says
	}()
	heal := func(ctx context.Context) error {
		defer cancel()
		_, err := srv.Do("SCRIPT", "KILL")
		select {
		case <-killed:
			return errors.Join(err, set(srv, "lua-time-limit", "5000"))
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
	if err := awaitRefusal(ctx, srv, "BUSY", killed); err != nil {
		return nil, errors.Join(err, heal(ctx))
	}
	return heal, nil
}

// pauseAll makes a server read no commands, not even the one that would end that.
func pauseAll(_ context.Context, s *Scene, srv *servertest.Server) (Heal, error) {
	d := s.between(s.TTL/2, s.TTL*3/2)
	until := time.Now().Add(d)
	if _, err := srv.Do("CLIENT", "PAUSE", fmt.Sprint(d.Milliseconds()), "ALL"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := sleep(ctx, time.Until(until)); err != nil {
			return err
		}
		_, err := srv.Do("PING")
		return err
	}, nil
}

// pauseWrite makes a server put off commands that write.
func pauseWrite(_ context.Context, _ *Scene, srv *servertest.Server) (Heal, error) {
	if _, err := srv.Do("CLIENT", "PAUSE", fmt.Sprint(healTimeout.Milliseconds()), "WRITE"); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		_, err := srv.Do("CLIENT", "UNPAUSE")
		return err
	}, nil
}
