package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lateWakeUp is from when on a hand-over is taken for one whose message has not arrived: a waiter then asks
// again, after three quarters of a second at the earliest.
const lateWakeUp = 500 * time.Millisecond

// noLocks is the finding about all kinds of locks where the fault is not in the locks.
func noLocks(found string, servers []facts, quorum bool) finding {
	means := "No lock can be taken at present. Those that are held are lost when their time is over."
	if quorum {
		means = "No lock can be taken at present. A server that is new, or has lost its data, takes no part until --longest-ttl has passed; --bootstrap uses new ones at once, where no lock has ever been held."
	}
	useless := 0
	for _, f := range servers {
		if f.down != nil || f.replication(quorum).Level == problem {
			useless++
		}
	}
	if useless > 0 && (!quorum || useless > len(servers)/2) {
		means = "No lock can be taken: see the servers above."
	}
	return finding{"locks", problem, found, means}
}

// tryLocks passes a lock of each kind from one client to another that waits for it.
func (t *tool) tryLocks(ctx context.Context, name string, timeout time.Duration, servers []facts) ([]finding, error) {
	ttl := locker.TTL(t.target.within(10 * time.Second))
	holder, err := t.target.open(ttl)
	if err != nil {
		return nil, err
	}
	defer leave(holder)
	other, err := t.target.open(ttl)
	if err != nil {
		return nil, err
	}
	defer leave(other)
	quorum := t.target.isQuorum()
	if !slices.ContainsFunc(servers, func(f facts) bool { return f.down == nil }) {
		return []finding{noLocks("not tried, as no server can be used", servers, quorum)}, nil
	}
	down := slices.ContainsFunc(servers, func(f facts) bool { return f.down != nil })
	var findings []finding
	for _, kind := range []struct {
		name string
		opts []locker.Option
	}{
		{"mutex", nil},
		{"fenced mutex", []locker.Option{locker.Fenced()}},
		{"read-write lock", []locker.Option{locker.ForWriting()}},
	} {
		p := probe{holder: holder, mutex: holder.Mutex(name, kind.opts...), next: other.Mutex(name, kind.opts...)}
		p.try(ctx, timeout)
		if p.silent() {
			return []finding{noLocks(p.err.Error(), servers, quorum)}, nil
		}
		findings = append(findings, p.assess(kind.name, down))
	}
	return findings, nil
}

// A probe tells whether a kind of lock can be used.
type probe struct {
	holder      *locker.Client
	mutex, next *locker.Mutex // the same lock, of two clients

	taken bool
	took  time.Duration // from Unlock to the return of the other's Lock
	err   error
}

func (p *probe) try(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	lease, err := p.mutex.TryLock(ctx)
	if p.err = err; err != nil {
		return
	}
	p.taken = true
	p.took, p.err = passOn(ctx, lease, p.holder, p.next)
}

// silent reports whether there was no answer, so that nothing can be learned about the lock.
func (p *probe) silent() bool {
	if errors.Is(p.err, locker.ErrLocked) || moved(p.err) {
		return false
	}
	return errors.Is(p.err, locker.ErrUnavailable) || errors.Is(p.err, locker.ErrUnknown) || errors.Is(p.err, context.DeadlineExceeded)
}

// moved reports whether the server is a node of a Cluster although it was not meant to be one.
func moved(err error) bool {
	reply, ok := errors.AsType[*driver.ServerError](err)
	return ok && (reply.Code == "MOVED" || reply.Code == "ASK")
}

// assess says what came of the probe. down tells that a server of a quorum does not answer. That is a
// finding of its own, and delays a waiter although nothing is wrong with the messages.
func (p *probe) assess(kind string, down bool) finding {
	f := finding{Check: kind, Level: fine, Found: "taken, waited for and passed on in " + roughly(p.took)}
	if p.err == nil && p.took < lateWakeUp {
		return f
	}
	if p.err == nil && down {
		f.Level = note
		f.Means = "A server that does not answer may be waited for, for --node-timeout, until the client knows it: see the servers above."
		return f
	}
	if p.err == nil {
		f.Level = warning
		f.Means = "Who waits is not told in time that the lock is free, and finds out by asking, within a second. See subscribing and publishing; or something between here and the server keeps the messages back."
		return f
	}
	f.Level, f.Found = problem, p.err.Error()
	if p.taken {
		f.Found = "taken, but not passed on to who waits: " + f.Found
	}
	reply, _ := errors.AsType[*driver.ServerError](p.err)
	switch {
	case errors.Is(p.err, locker.ErrLocked) && !p.taken:
		f.Level, f.Means = unseen, "The name given by --probe is in use: choose another one."
	case errors.Is(p.err, locker.ErrLocked):
		f.Means = "Who waits for this kind of lock does not get it within --timeout."
	case errors.Is(p.err, errTwice):
		f.Means = "Two clients had the lock at the same time. Does the address lead to several servers, as by a proxy or a name that spreads connections? Each of them gives its own locks."
	case errors.Is(p.err, locker.ErrPermission):
		f.Means = "This kind of lock cannot be used here under this name. What a user needs is in docs/servers.md; --prefix and --probe choose a name that an ACL allows."
	case moved(p.err):
		f.Means = "The server is a node of a Cluster: say so by ?mode=cluster in the URL."
	case reply != nil && reply.Code == "OOM":
		f.Means = "The server's memory is full: no lock can be taken until there is some, by a higher maxmemory or by less data."
	default:
		f.Means = "This kind of lock cannot be used here."
	}
	return f
}
