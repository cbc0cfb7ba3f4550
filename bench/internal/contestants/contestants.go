// Package contestants has an adapter for each implementation of a lock that is
// compared. A new one is a file here that calls [Register] in init; every scenario
// that its Spec names then picks it up.
package contestants

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

// An Unlock releases a lock. It returns an error if the lock was no longer held or
// if that is unknown.
type Unlock func() error

// A Locker is one instance of a contestant, with connections of its own.
type Locker interface {
	// Lock waits until key is held or ctx ends. A library that gives up by itself
	// (redsync after 32 tries, for one) returns its error: the scenarios count it and
	// call again.
	Lock(ctx context.Context, key string) (Unlock, error)
	// Close closes the connections. Nothing is locked when it is called.
	Close() error
}

// Options are what a scenario asks for.
type Options struct {
	Addrs []string      // one server, or those of a quorum
	TTL   time.Duration // of a lease
	Renew bool          // keep each lock alive until Unlock
	Stats *Renewals     // where renewals that are not the library's are counted; may be nil
}

// Renewals counts what [keepAlive] does. Libraries that renew by themselves are
// judged by what the server sees, as all are.
type Renewals struct {
	Failed, Late, Lost atomic.Int64
}

// Use is the set of scenarios in which a contestant takes part.
type Use int

const (
	UseFree   Use = 1 << iota // free, parallel, stall: nobody competes for a key
	UseWait                   // contend, procs, waiters
	UseHeld                   // held: needs renewal
	UseQuorum                 // quorum: several servers
	UsePing                   // free, as the floor of any round trip: a PING, not a lock
)

// The Redis clients that contestants are built on.
const (
	Goredis = "goredis"
	Rueidis = "rueidis"
	Redigo  = "redigo"
)

// A Spec describes a contestant.
type Spec struct {
	Name   string // family/variant
	Client string // one of the constants above; empty for bare sockets
	Uses   Use
	Note   string // the settings that matter
	// OneServer marks one that keeps its quorum on a single server.
	OneServer bool
	// Passing are prefixes of keys that may stay when a lock is free, because they
	// keep nobody out and run out by themselves.
	Passing []string
	// Hidden ones run only if they are asked for by name.
	Hidden bool
	New    func(Options) (Locker, error)
}

// Locks is false for those that only send a PING for each pair.
func (s Spec) Locks() bool { return s.Uses != UsePing }

// SameClientFloor is the hand-written lock on the client that a contestant uses, and
// SameClientFailFast is redsync's quorum on it that a hung server delays least. They
// are empty for contestants on bare sockets.
func (s Spec) SameClientFloor() string    { return onClient("floor/", s.Client, "") }
func (s Spec) SameClientFailFast() string { return onClient("redsync/", s.Client, "+failfast") }

func onClient(before, client, after string) string {
	if client == "" {
		return ""
	}
	return before + client + after
}

var specs []Spec

// Register adds a contestant.
func Register(s Spec) { specs = append(specs, s) }

// first run, and are shown, before all others, as what those are compared with.
var first = []string{
	"ping/tcp", "ping/goredis", "ping/rueidis",
	"floor/tcp", "floor/goredis", "floor/goredis-autopipe", "floor/rueidis", "floor/redigo",
	"floor/blpop", "floor/goredis-poll10ms", "floor/goredis-poll1ms", "floor/redlock-goredis",
}

// For returns the contestants of a use that match one of the patterns, which are
// comma-separated globs ("redsync/*,floor/*"); an empty text matches all that are
// not hidden.
func For(use Use, patterns string) []Spec {
	var out []Spec
	for _, s := range All() {
		if s.Uses&use != 0 && s.matches(patterns) {
			out = append(out, s)
		}
	}
	return out
}

// All returns every contestant in running order.
func All() []Spec {
	var out []Spec
	early := map[string]bool{}
	for _, name := range first {
		if s, err := ByName(name); err == nil {
			out, early[name] = append(out, s), true
		}
	}
	for _, s := range specs {
		if !early[s.Name] {
			out = append(out, s)
		}
	}
	return out
}

// ByName finds a contestant.
func ByName(name string) (Spec, error) {
	for _, s := range specs {
		if s.Name == name {
			return s, nil
		}
	}
	return Spec{}, fmt.Errorf("there is no contestant %q", name)
}

func (s Spec) matches(patterns string) bool {
	if patterns == "" {
		return !s.Hidden
	}
	for p := range strings.SplitSeq(patterns, ",") {
		if ok, _ := path.Match(p, s.Name); ok && (!s.Hidden || p == s.Name) {
			return true
		}
	}
	return false
}
