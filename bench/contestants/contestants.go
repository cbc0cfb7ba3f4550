// Package contestants holds one adapter per lock implementation. To add a new
// one, write a file here that calls Register in init with a Spec whose New
// returns a Locker; every scenario named in its Uses then picks it up.
package contestants

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

// Unlock releases a held lock. It returns an error if the lock was no longer
// held or the release failed.
type Unlock func() error

// Locker is what a contestant implements.
type Locker interface {
	// Lock blocks until key is held or ctx is done. If the library gives up by
	// itself (redsync after 32 tries, for one) return its error: the scenarios
	// count it and call again.
	Lock(ctx context.Context, key string) (Unlock, error)
	// Close releases connections. No lock is held when it is called.
	Close() error
}

// Options is what a scenario asks of a contestant.
type Options struct {
	Addrs []string      // one server, or five for UseQuorum
	TTL   time.Duration // lease duration
	Renew bool          // keep each held lock alive until Unlock (UseHeld)
	Stats *RenewStats   // where adapters with their own renewal loop count; may be nil
}

// RenewStats is filled by renewal loops that live in the adapters (libraries
// that renew by themselves are judged from the server side only).
type RenewStats struct {
	Done, Errs, Late, Lost atomic.Int64
}

// Kind says what a contestant is for.
type Kind int

const (
	Ping  Kind = iota // not a lock: one PING per "pair", the round-trip floor
	Floor             // hand-written code on a bare client: what a user would type
	Peer              // a library
)

// Use is the set of scenarios a contestant takes part in.
type Use int

const (
	UseFree   Use = 1 << iota // 1, 2: uncontended
	UseWait                   // 3, 4, 7: contended, waiters
	UseHeld                   // 5: many held locks with renewal
	UseQuorum                 // 6: five servers
)

// Spec describes one contestant.
type Spec struct {
	Name string // family/variant
	Kind Kind
	Uses Use
	Note string // the settings that matter, for the report
	// OneServer marks a UseQuorum contestant that keeps its quorum on one server.
	OneServer bool
	// Passing are prefixes of the keys that may stay after a lock is free, since they
	// keep nobody out and run out by themselves.
	Passing []string
	// Hidden contestants run only when a pattern names them.
	Hidden bool
	New    func(Options) (Locker, error)
}

var specs []Spec

// Register adds a contestant.
func Register(s Spec) { specs = append(specs, s) }

// order is the display and running order; anything not named goes last.
var order = []string{
	"ping/tcp", "ping/goredis", "ping/rueidis",
	"floor/tcp", "floor/goredis", "floor/goredis-autopipe", "floor/rueidis", "floor/redigo",
	"floor/blpop", "floor/goredis-poll10ms", "floor/goredis-poll1ms", "floor/redlock-goredis",
}

// For returns the contestants of one use, floors first, filtered by glob
// patterns ("" means all; "redsync/*,floor/*" is a list).
func For(use Use, patterns string) []Spec {
	var out []Spec
	seen := map[string]bool{}
	add := func(s Spec) {
		if !seen[s.Name] && s.Uses&use != 0 && match(patterns, s.Name) && !(s.Hidden && patterns == "") {
			seen[s.Name] = true
			out = append(out, s)
		}
	}
	for _, n := range order {
		for _, s := range specs {
			if s.Name == n {
				add(s)
			}
		}
	}
	for _, s := range specs {
		add(s)
	}
	return out
}

// All returns every contestant.
func All() []Spec { return For(-1, "") }

// ByName finds one contestant.
func ByName(name string) (Spec, error) {
	for _, s := range specs {
		if s.Name == name {
			return s, nil
		}
	}
	return Spec{}, fmt.Errorf("no contestant %q", name)
}

func match(patterns, name string) bool {
	if patterns == "" {
		return true
	}
	for p := range strings.SplitSeq(patterns, ",") {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

// ---- shared by the hand-written floors ----

// releaseScript is the compare-and-delete everybody writes.
const releaseScript = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) else return 0 end`

// extendScript is its renewal twin.
const extendScript = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE",KEYS[1],ARGV[2]) else return 0 end`

// newToken returns 128 random bits in hex.
func newToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

var errNotHeld = fmt.Errorf("lock was not held at unlock")

// poll calls try until it takes the lock, ctx ends or it fails, sleeping
// interval between attempts: the loop a user would write around SET NX.
func poll(ctx context.Context, interval time.Duration, try func() (bool, error)) error {
	for {
		ok, err := try()
		if ok || err != nil {
			return err
		}
		if err := sleep(ctx, interval); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// keepAlive is the per-lock goroutine that a user of a library without built-in
// renewal writes: extend every TTL/3 until stopped. extend reports whether the
// lock is still held.
func keepAlive(o Options, extend func(context.Context) (bool, error)) (stop func()) {
	if !o.Renew {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	every := o.TTL / 3
	go func() {
		t := time.NewTicker(every)
		defer t.Stop()
		due := time.Now().Add(every)
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			ok, err := extend(ctx)
			if ctx.Err() != nil {
				return
			}
			switch {
			case err != nil:
				o.Stats.Errs.Add(1)
			case !ok:
				o.Stats.Lost.Add(1)
				return
			default:
				o.Stats.Done.Add(1)
			}
			if time.Since(due) > o.TTL/10 {
				o.Stats.Late.Add(1)
			}
			due = due.Add(every)
		}
	}()
	return cancel
}
