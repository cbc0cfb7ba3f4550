package round

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/nemesis"
)

const (
	warmUp = time.Second
	// healTime bounds what it takes to inject or heal one fault.
	healTime = 90 * time.Second
)

// A schedule injects the faults of a round.
type schedule struct {
	scene    *nemesis.Scene
	shortest time.Duration // that a fault lasts
	log      *history.Log
	rand     *rand.Rand
}

// play injects the faults in turn, and returns when all are healed.
func (s *schedule) play(ctx context.Context, faults []nemesis.Fault, mixed bool) error {
	sleep(ctx, warmUp)
	var running sync.WaitGroup
	errs := make([]error, len(faults))
	for i, f := range faults {
		length := s.shortest + time.Duration(s.rand.Int64N(int64(s.shortest)))
		running.Go(func() { errs[i] = s.inject(ctx, f, length) })
		if mixed {
			sleep(ctx, length/2)
			continue
		}
		running.Wait()
		sleep(ctx, length/2)
	}
	running.Wait()
	return errors.Join(errs...)
}

// inject injects one fault, waiting for what it could be done to to be free of others,
// and heals it.
func (s *schedule) inject(ctx context.Context, f nemesis.Fault, length time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	note := func(what history.What) error {
		return s.log.Add(history.Event{At: history.Now(), What: what, Fault: f.Name})
	}
	if err := note(history.Injected); err != nil {
		return err
	}
	heal, err := f.Inject(ctx, s.scene)
	for errors.Is(err, nemesis.ErrBusy) && ctx.Err() == nil {
		sleep(ctx, s.shortest/8)
		heal, err = f.Inject(ctx, s.scene)
	}
	if err != nil {
		return fmt.Errorf("round: inject %s: %w", f.Name, err)
	}
	sleep(ctx, length)
	if err := heal(ctx); err != nil {
		return fmt.Errorf("round: heal %s: %w", f.Name, err)
	}
	return note(history.Healed)
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
