package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/resource"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// variable has the Config of a process that is a worker.
const variable = "GOLOCKER_ROBUSTNESS_WORKER"

// Main does not return in a process that was started to be a worker, and does nothing
// in any other. A worker ends when its standard input does, or by SIGTERM, once it has
// given up what it holds.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var cfg Config
	err := json.Unmarshal([]byte(text), &cfg)
	if err == nil {
		err = run(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run uses locks until ctx ends.
func run(ctx context.Context, cfg Config) (err error) {
	log, err := history.Open(cfg.History)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	guarded, err := resource.Dial(cfg.Resource)
	if err != nil {
		return err
	}
	defer guarded.Close()
	client, err := open(cfg.Target, redlock.Config{LongestTTL: cfg.Longest}, locker.Label(cfg.Name), locker.TTL(cfg.TTL))
	if err != nil {
		return err
	}
	var hands sync.WaitGroup
	for i := range cfg.Hands {
		name := fmt.Sprintf("%s/%d", cfg.Name, i)
		h := &hand{
			cfg: cfg, name: name, locks: Locks(cfg.Locks), client: client, log: log, resource: guarded,
			rand: rand.New(rand.NewPCG(cfg.Seed, uint64(i))),
		}
		hands.Go(func() { h.run(ctx) })
	}
	hands.Wait()
	// Whatever else it fails to release is free when its TTL has passed, and was not
	// confirmed for a reason that the histories have.
	_ = client.Close()
	return nil
}
