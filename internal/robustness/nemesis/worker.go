package nemesis

import (
	"context"
	"errors"
	"time"
)

// workerFaults are those of the processes that use locks.
func workerFaults() []Fault {
	return []Fault{
		{Name: "worker-kill", Kinds: everywhere, Inject: killWorker},
		{Name: "worker-stop", Kinds: everywhere, Inject: stopWorker},
		{Name: "cpu-starvation", Kinds: everywhere, Inject: starve},
	}
}

// killWorker ends a worker by SIGKILL.
func killWorker(_ context.Context, s *Scene) (Heal, error) {
	names, release, err := s.claim(1, s.Workers.Running()...)
	if err != nil {
		return nil, err
	}
	defer release()
	return healed, s.Workers.Kill(names[0])
}

// stopWorker stops some workers until all of their leases are over, and longer.
func stopWorker(_ context.Context, s *Scene) (Heal, error) {
	running := s.Workers.Running()
	names, release, err := s.claim(1+s.intN((len(running)+1)/2), running...)
	if err != nil {
		return nil, err
	}
	resume := func() error {
		defer release()
		var errs []error
		for _, name := range names {
			errs = append(errs, s.Workers.Resume(name))
		}
		return errors.Join(errs...)
	}
	for i, name := range names {
		if err := s.Workers.Pause(name); err != nil {
			names = names[:i]
			return nil, errors.Join(err, resume())
		}
	}
	until := time.Now().Add(s.TTL * 5 / 4)
	return func(ctx context.Context) error {
		return errors.Join(sleep(ctx, time.Until(until)), resume())
	}, nil
}

// starve takes the processors away.
func starve(_ context.Context, s *Scene) (Heal, error) {
	release, err := s.claimAll("processors")
	if err != nil {
		return nil, err
	}
	stop, err := Hogs(hogsPerProcessor)
	if err != nil {
		release()
		return nil, err
	}
	return func(context.Context) error {
		defer release()
		stop()
		return nil
	}, nil
}
