package locker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// ForceRelease ends all leases on the lock with the given name, whatever kind of lock it is and
// whoever holds it, and returns those who held it. It is meant for an administrator who knows
// that the holder is dead. A holder that is alive goes on believing in its lease until its next
// renewal fails, within TTL/3 (without renewal: until its deadline), and only fencing tokens
// keep it from doing harm in that time.
//
// A caller that has looked at the lock before, with [Client.Inspect], should use
// [Client.ForceReleaseFrom]: it spares a holder that has acquired the lock since.
//
// It returns [ErrAbsent] if nobody holds the lock, and [ErrUnknown] if the server's answer was
// not learned. It returns a [*ForeignError], without touching anything, if the key does not
// hold a lock of this library, or if one of the keys beside it holds what no version of this
// library has written. After ErrUnknown somebody else may already hold the lock, and would lose
// it if ForceRelease were called again: call ForceReleaseFrom, with what Inspect had shown
// before.
//
// On a quorum it looks at the lock first, as Inspect does, and ends the leases that it has
// seen. So it leaves alone an acquisition that is under way, and what a lease that nobody holds
// has left at a minority of the nodes. ErrUnavailable can then also mean what it means from
// Inspect. Where others have acquired the lock between the two steps they keep it, and
// ForceRelease returns [ErrTaken].
//
// It asks once (on a quorum twice), for as long as [AttemptTimeout] and ctx allow. Where it is
// certain that nothing was changed, the error is [ErrUnavailable], the cause of ctx,
// [ErrPermission], [ErrInvalid] for a name that cannot be used, or [ErrClosed].
func (c *Client) ForceRelease(ctx context.Context, name string) ([]Holder, error) {
	leases := everyLease
	if c.quorum != nil {
		status, err := c.lookFirst(ctx, name)
		if err != nil {
			return nil, err
		}
		if !status.Held() {
			return nil, absentError(name)
		}
		leases = fingerprints(status.Holders)
	}
	return c.forceRelease(ctx, name, leases)
}

// ForceReleaseFrom is [Client.ForceRelease] for the leases of these holders alone, as reported
// by [Client.Inspect], [Client.List], ForceRelease, or a [*LockedError], which names one hold
// of one of them. Anybody else who holds the lock by now keeps it, even if by a new lease of
// the same client, or by one that [Mutex.Attach] has taken up since. So it may be called again
// and again.
//
// It returns those of the holders who did hold the lock. If none of them holds it any more, it
// returns [ErrTaken], with a LockedError in the chain, where somebody else holds it, and
// otherwise [ErrAbsent]. If no holders are given it returns ErrAbsent without asking. It
// returns [ErrInvalid] for a Holder from any other source: one made by the caller, or that of a
// LockedError where the holder was not known. A Holder that is Foreign has no lease that could
// be ended.
//
// On a quorum it ends these leases at each node that knows them, and returns the holders that
// at least one node knew. So it also removes what is left of a lease at a minority of the
// nodes, which keeps others out until its TTL has passed: Inspect does not show that, but the
// LockedError of a TryLock does. And it returns ErrUnknown where so many nodes have lost their
// data less than LongestTTL ago that one of the holders may believe in a lease of which these
// nodes know nothing any more.
//
// Other errors are those of ForceRelease. After [ErrUnknown] call it again with the same
// holders.
func (c *Client) ForceReleaseFrom(ctx context.Context, name string, holders ...Holder) ([]Holder, error) {
	for _, h := range holders {
		if !h.Foreign && h.leases == "" {
			return nil, failed(forceRelease(name), invalid("a Holder that tells of no lease; use those that Inspect, List or a LockedError has told, as they are"))
		}
	}
	if len(holders) == 0 {
		return nil, absentError(name)
	}
	return c.forceRelease(ctx, name, fingerprints(holders))
}

// everyLease stands for the fingerprints of all leases, and noLease for those of none.
const (
	everyLease = "*"
	noLease    = "-"
)

// fingerprints returns, for the script, the fingerprints of the leases of all holders.
func fingerprints(holders []Holder) string {
	leases := []string{noLease} // so that the list is not empty where all holders are foreign values, which have no leases
	for _, h := range holders {
		leases = append(leases, h.leases)
	}
	return strings.Join(leases, " ")
}

// lookFirst is Inspect as the first step of another call. It takes at most half of the time
// that ctx leaves, so that a node that does not answer costs only the first step.
func (c *Client) lookFirst(ctx context.Context, name string) (Status, error) {
	m := c.Mutex(name)
	within := m.cfg.attemptTimeout
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)/2)
	}
	v, err := m.adminWithin(ctx, within, forceRelease(name), c.inspectCall(&m.keys), false)
	if err != nil {
		return Status{}, err
	}
	return parseStatus(name, v)
}

func (c *Client) forceRelease(ctx context.Context, name, leases string) ([]Holder, error) {
	m := c.Mutex(name)
	v, err := m.admin(ctx, forceRelease(name), c.breakCall(&m.keys, leases), true)
	if err != nil {
		return nil, err
	}
	status, rest, ok := splitReply(v)
	switch {
	case !ok:
	case status == 0:
		return nil, absentError(name)
	case status == -2 && len(rest) >= 1:
		return nil, foreignError(name, rest)
	case (status == 1 || status == -1) && len(rest) == 3:
		left, _ := rest[1].(int64)
		switch holders, ok := parseHolders(rest[0], left, rest[2]); {
		case ok && len(holders) == 0:
			// The last hold had run out, and nothing has noticed yet.
			return nil, absentError(name)
		case ok && status == -1:
			return nil, failed(forceRelease(name), ErrTaken, &LockedError{Name: name, Holder: holders[0]})
		case ok:
			return holders, nil
		}
	}
	return nil, failed(forceRelease(name), ErrUnknown, oddReply("force release", v))
}

func (c *Client) breakCall(k *keys, leases string) call {
	return c.lookCall(breakScript, []string{k.record, k.queue, k.entries}, leases)
}

func absentError(name string) error {
	return failed(forceRelease(name), ErrAbsent)
}

func forceRelease(name string) string { return fmt.Sprintf("force release of %q", name) }

// admin makes one request that is not about a lease of this client. what names the
// request, and changes tells whether it changes anything, so that an unknown outcome
// matters.
func (m *Mutex) admin(ctx context.Context, what string, c call, changes bool) (v driver.Value, err error) {
	return m.adminWithin(ctx, m.cfg.attemptTimeout, what, c, changes)
}

func (m *Mutex) adminWithin(ctx context.Context, within time.Duration, what string, c call, changes bool) (v driver.Value, err error) {
	if m.problem != nil {
		return nil, m.problem
	}
	if err := m.client.enter(); err != nil {
		return nil, err
	}
	defer m.client.leave()
	if fault := m.client.quorum.fault(); fault != nil {
		return nil, failed(what, fault)
	}
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if v, err = m.client.deployment.run(bounded, c); err == nil {
		// The first request may have shown that the nodes make no quorum.
		if fault := m.client.quorum.fault(); fault != nil {
			return nil, failed(what, fault)
		}
		return v, nil
	}
	unknown := changes && (driver.OutcomeOf(err) == driver.OutcomeUnknown || someMayHave(err))
	reasons := []error{requestError(m.name, late(err))}
	switch {
	case ctx.Err() == nil:
	case changes:
		reasons = endedBeside(ctx, err)
	default:
		reasons = ended(ctx, err)
	}
	if unknown {
		reasons = append([]error{ErrUnknown}, reasons...)
	}
	return nil, failed(what, reasons...)
}
