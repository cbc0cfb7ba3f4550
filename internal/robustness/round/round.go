package round

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golocker/golocker/internal/robustness/check"
	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/nemesis"
	"github.com/golocker/golocker/internal/robustness/resource"
	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/robustness/worker"
)

// Play plays a round. The histories are in dir, which is to be empty. Servers that cannot be
// started fail the test; the error is about everything else that went wrong, and the
// report has what the locks did wrong.
func Play(tb testing.TB, spec Spec, dir string) (report *check.Report, err error) {
	tb.Helper()
	faults, needs, err := spec.faults()
	if err != nil {
		return nil, err
	}
	r := rig.Start(tb, spec.Kind, needs)

	// Not in dir: a socket's path must be short.
	private, err := os.MkdirTemp("", "robust")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	socket := filepath.Join(private, "s")
	left := filepath.Join(private, "left")
	if err := os.Mkdir(left, 0o700); err != nil {
		return nil, err
	}
	guarded, err := resource.Listen(socket)
	if err != nil {
		return nil, err
	}
	defer guarded.Close()

	logFile := filepath.Join(dir, "round")
	log, err := history.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c := &crew{spec: spec, rig: r, dir: dir, socket: socket, left: left, running: map[string]*worker.Process{}}
	if err := play(tb.Context(), spec, c, faults, log); err != nil {
		return nil, err
	}
	m := spec.Load.measures()
	return check.Round{
		Files:           append(c.files, logFile),
		LongestTTL:      m.longest,
		Margin:          m.margin(),
		Poll:            poll,
		Place:           place,
		Patience:        m.patience,
		Ordered:         spec.Kind != rig.Quorum,
		Effects:         effects(faults, spec.Kind),
		LeastOperations: m.operations * len(faults),
		LeastFaults:     len(faults),
	}.Run()
}

// play is the part of a round in which something happens.
func play(ctx context.Context, spec Spec, c *crew, faults []nemesis.Fault, log *history.Log) error {
	if err := settle(ctx, c); err != nil {
		return err
	}
	defer c.end()
	m := spec.Load.measures()
	for range m.workers {
		if err := c.hire(); err != nil {
			return err
		}
	}
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() { sample(sampling, c.rig.Servers, log) })
	watching.Go(func() { witness(sampling, log) })
	s := schedule{
		scene:    nemesis.NewScene(c.rig, c, m.longest, spec.Seed),
		shortest: m.shortest(),
		log:      log,
		rand:     rand.New(rand.NewPCG(spec.Seed, 0)),
	}
	err := s.play(ctx, faults, spec.Mixed)
	sleep(ctx, m.coolDown)
	// Half of the rounds end as a power cut does, with all that is held left behind.
	err = errors.Join(err, c.dismiss(spec.Seed%2 == 0))
	if err == nil {
		err = probe(ctx, c, faults, log)
	}
	if err == nil && spec.Kind != rig.Quorum { // which has no order
		err = c.lineUp(ctx)
	}
	stop()
	watching.Wait()
	return err
}

// settle makes a quorum's nodes ready.
func settle(ctx context.Context, c *crew) error {
	if c.rig.Kind != rig.Quorum {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	cfg, err := c.config("settler")
	if err != nil {
		return err
	}
	return worker.Settle(ctx, cfg)
}

// probe takes every lock once, now that no fault is left and nobody else there.
func probe(ctx context.Context, c *crew, faults []nemesis.Fault, log *history.Log) error {
	cfg, err := c.config("probe")
	if err != nil {
		return err
	}
	var lingers time.Duration
	for _, f := range faults {
		lingers = max(lingers, f.Lingers)
	}
	m := c.spec.Load.measures()
	return worker.Probe(ctx, cfg, log, m.longest+poll+lingers+4*m.patience)
}

// faults looks up the faults and what they need.
func (s Spec) faults() ([]nemesis.Fault, rig.Needs, error) {
	var found []nemesis.Fault
	var needs rig.Needs
	all := nemesis.On(s.Kind)
	for _, name := range s.Faults {
		i := slices.IndexFunc(all, func(f nemesis.Fault) bool { return f.Name == name })
		if i < 0 {
			return nil, needs, fmt.Errorf("round: there is no fault %q on %s", name, s.Kind)
		}
		found = append(found, all[i])
		needs = needs.With(all[i].Needs)
	}
	return found, needs, nil
}

// effects tells the checkers what the faults may do.
func effects(faults []nemesis.Fault, kind rig.Kind) map[string]check.Effect {
	m := map[string]check.Effect{}
	for _, f := range faults {
		m[f.Name] = check.Effect{Breaks: f.Allowed(kind, faults...), Lingers: f.Lasts(faults...)}
	}
	return m
}
