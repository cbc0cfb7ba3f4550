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
	// A fault lasts from shortest to twice that: mostly for longer than a lease.
	shortest = longest * 3 / 4
	// coolDown is how long the workers go on when all faults are healed. What may take longer
	// after a fault is not let off any more in the last seconds of it.
	coolDown = longest + poll + patience + 3*time.Second
	// healTime bounds what it takes to inject or heal one fault.
	healTime = 90 * time.Second
)

// A schedule injects the faults of a round.
type schedule struct {
	scene *nemesis.Scene
	log   *history.Log
	rand  *rand.Rand
}

// play injects the faults in turn, and returns when all are healed.
func (s *schedule) play(ctx context.Context, faults []nemesis.Fault, mixed bool) error {
	sleep(ctx, warmUp)
	var running sync.WaitGroup
	errs := make([]error, len(faults))
	for i, f := range faults {
		length := shortest + time.Duration(s.rand.Int64N(int64(shortest)))
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
		sleep(ctx, shortest/8)
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
