package contestants

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"
)

// What the hand-written locks have in common, and the renewal of libraries that
// leave it to the application.

const (
	// releaseScript is the compare-and-delete that everybody writes.
	releaseScript = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`
	// extendScript is its twin for renewal.
	extendScript = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE",KEYS[1],ARGV[2]) else return 0 end`
)

var errNotHeld = errors.New("the lock was not held any more")

// noop is the Unlock of contestants that have nothing to unlock.
func noop() error { return nil }

// newToken returns 128 random bits in hex.
func newToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// poll calls try until it takes the lock, fails, or ctx ends: the loop that an
// application writes around SET NX.
func poll(ctx context.Context, every time.Duration, try func() (bool, error)) error {
	for {
		if ok, err := try(); ok || err != nil {
			return err
		}
		t := time.NewTimer(every)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// keepAlive is the goroutine for each lock that an application writes: it extends
// the lease every third of the TTL until it is stopped. The function extend says
// whether the lock is still held.
func keepAlive(o Options, extend func(context.Context) (bool, error)) (stop func()) {
	if !o.Renew {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go renew(ctx, o, extend)
	return cancel
}

func renew(ctx context.Context, o Options, extend func(context.Context) (bool, error)) {
	every := o.TTL / 3
	t := time.NewTicker(every)
	defer t.Stop()
	for due := time.Now().Add(every); ; due = due.Add(every) {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		held, err := extend(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.Stats.Failed.Add(1)
		case !held:
			o.Stats.Lost.Add(1)
			return
		}
		if time.Since(due) > o.TTL/10 {
			o.Stats.Late.Add(1)
		}
	}
}
