package round

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/golocker/golocker/internal/robustness/nemesis"
	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/robustness/worker"
)

// A crew is the workers of a round. Who is killed is replaced.
type crew struct {
	spec   Spec
	rig    *rig.Rig
	dir    string
	socket string // of what the locks guard
	left   string // the folder of leases that workers leave for each other

	mu      sync.Mutex
	running map[string]*worker.Process
	hired   int
	files   []string
}

var _ nemesis.Workers = (*crew)(nil)

// config returns what a worker of that name is told.
func (c *crew) config(name string) (worker.Config, error) {
	target, err := c.rig.Target(name, c.spec.Drivers...)
	m := c.spec.Load.measures()
	return worker.Config{
		Name: name, Target: target, Resource: c.socket, Parcels: c.left, History: filepath.Join(c.dir, name),
		Hands: m.hands, Locks: m.locks, TTL: m.ttl, Longest: m.longest, Pause: m.pause,
	}, err
}

// hire starts a worker.
func (c *crew) hire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hired++
	name := fmt.Sprintf("w%d", c.hired)
	cfg, err := c.config(name)
	if err != nil {
		return err
	}
	cfg.Seed = c.spec.Seed ^ uint64(c.hired)<<32
	p, err := worker.Start(cfg)
	if err != nil {
		return err
	}
	c.running[name] = p
	c.files = append(c.files, cfg.History)
	return nil
}

// Running returns the names of the workers that run, sorted.
func (c *crew) Running() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.running))
}

// Kill kills a worker and hires another.
func (c *crew) Kill(name string) error {
	p, err := c.named(name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.running, name)
	c.mu.Unlock()
	return errors.Join(p.Kill(), c.hire())
}

// Pause stops a worker for a while.
func (c *crew) Pause(name string) error {
	p, err := c.named(name)
	if err != nil {
		return err
	}
	return p.Pause()
}

// Resume lets a worker that was stopped go on.
func (c *crew) Resume(name string) error {
	p, err := c.named(name)
	if err != nil {
		return err
	}
	return p.Resume()
}

func (c *crew) named(name string) (*worker.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.running[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("round: no worker %q runs", name)
}

// dismiss ends all workers: it tells them to end, or kills them if they are to leave
// everything as it is.
func (c *crew) dismiss(abruptly bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, p := range c.running {
		if abruptly {
			errs = append(errs, p.Kill())
		} else {
			p.Stop()
		}
	}
	if !abruptly {
		for name, p := range c.running {
			if err := p.Join(c.spec.Load.measures().stopTime()); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	clear(c.running)
	return errors.Join(errs...)
}

// lined is how many clients line up in the end, besides one who holds the lock.
const lined = 3

// lineUp has clients that have seen no fault stand in line for the locks.
func (c *crew) lineUp(ctx context.Context) error {
	var cfgs []worker.Config
	for i := range 1 + lined {
		cfg, err := c.config(fmt.Sprintf("line%d", i))
		if err != nil {
			return err
		}
		c.files = append(c.files, cfg.History)
		cfgs = append(cfgs, cfg)
	}
	m := c.spec.Load.measures()
	return worker.Line(ctx, m.longest+place+m.patience, cfgs...)
}

// end is dismiss for a round that is given up.
func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.running {
		_ = p.Kill()
	}
	clear(c.running)
}
