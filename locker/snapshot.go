package locker

import (
	"cmp"
	"slices"
	"time"
)

// A Snapshot is what this process holds and waits for through one client. It is made without
// asking the server; [Client.Inspect] does that.
type Snapshot struct {
	Leases  []LeaseInfo   // ordered by name
	Waiters []WaitingInfo // ordered by name, the longest wait first
}

// A LeaseInfo is a lock that the client holds.
type LeaseInfo struct {
	LockInfo
	Owner string // "" if the lock cannot be re-entered
	Token Token  // 0 if the lock is not fenced
	// Since is when the client was granted the lock. Its goroutines may have passed it on
	// since then.
	Since    time.Time
	Deadline time.Time // the lease's, unless it is renewed before
	Handles  int       // how many leases share the hold: 1, or more where the owner has re-entered
	// RenewErr is why the last renewal has failed; nil if none has failed since the last
	// that succeeded.
	RenewErr error
}

// A WaitingInfo is a call that waits for a lock because somebody else has it. A call whose
// first request is on its way does not wait yet.
type WaitingInfo struct {
	LockInfo
	Since time.Time // when the call was made
	// InLine tells that the call waits behind another goroutine of this client, which asks the
	// server, or has the lock.
	InLine bool
}

// Snapshot tells which locks the client holds and which calls wait, for debugging. It takes a
// moment if there are very many. For a closed client the result is empty.
func (c *Client) Snapshot() Snapshot {
	var s Snapshot
	for _, t := range c.watchdog.tenures() {
		if lease, held := t.describe(); held {
			s.Leases = append(s.Leases, lease)
		}
	}
	s.Waiters = append(c.lines.waiting(), c.hub.waiting()...)
	slices.SortFunc(s.Leases, func(a, b LeaseInfo) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since))
	})
	slices.SortFunc(s.Waiters, func(a, b WaitingInfo) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since))
	})
	return s
}

// describe tells whether the tenure is held.
func (t *tenure) describe() (LeaseInfo, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := now()
	if t.check(now); t.held == nil {
		return LeaseInfo{}, false
	}
	info := LeaseInfo{
		LockInfo: t.mutex.info(), Owner: t.owner, Token: t.held.token,
		Since: now.at.Add(t.begun.sub(now.at)), Deadline: t.lastDeadline(), RenewErr: t.lastErr,
	}
	for l := t.held; l != nil; l = l.next {
		info.Handles++
	}
	return info, true
}

// tenures returns those that the watchdog has in its care; some may be over.
func (w *watchdog) tenures() []*tenure {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[*tenure]bool{}
	look := func(j *job) {
		if t, ok := j.task.(*tenure); ok {
			found[t] = true
		}
	}
	for _, j := range w.firing {
		look(j)
	}
	w.jobs.each(look)
	list := make([]*tenure, 0, len(found))
	for t := range found {
		list = append(list, t)
	}
	return list
}

// each calls f for every job.
func (s *schedule) each(f func(*job)) {
	for _, e := range s.heap {
		f(e.job)
	}
	for _, j := range s.buckets {
		for ; j != nil; j = j.behind {
			f(j)
		}
	}
}

// waiting are those who stand in line.
func (s *lines) waiting() []WaitingInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []WaitingInfo
	for _, ln := range s.byRecord {
		for ; ln != nil; ln = ln.other {
			for w := ln.first; w != nil; w = w.next {
				list = append(list, WaitingInfo{LockInfo: w.mutex.info(), Since: w.begun, InLine: true})
			}
		}
	}
	return list
}

// waiting are those who have asked the server.
func (h *hub) waiting() []WaitingInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []WaitingInfo
	for _, s := range h.slots {
		list = append(list, WaitingInfo{LockInfo: s.mutex.info(), Since: s.since})
	}
	return list
}
