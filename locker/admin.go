package locker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// ForceRelease ends all leases on the lock with the given name, of whatever kind it
// is and whoever holds it, and returns who that was. It is meant for an
// administrator who knows that the holder is dead: a holder that is alive goes on
// believing in its lease until its next renewal fails, within TTL/3 (without renewal:
// until its deadline), and only fencing tokens keep it from doing harm in that time.
//
// Who has looked at the lock before, by [Client.Inspect], uses [Client.ForceReleaseFrom]: it
// spares who has got the lock since.
//
// It returns [ErrAbsent] if nobody holds the lock, [ErrUnknown] if the server's answer
// was not learned, and a [*ForeignError] without touching anything if the key does not hold a
// lock of this library, or one of the keys beside it what no version has written. After
// ErrUnknown the lock may be another's already, who would lose it if ForceRelease were asked
// again: ask ForceReleaseFrom, with what Inspect had shown before.
//
// On a quorum it looks at the lock first, as Inspect does, and ends the leases that it has seen.
// So an acquisition that is under way, and what is left at a minority of the nodes from a lease
// that is nobody's, is let be. ErrUnavailable then also tells what it tells of Inspect. Where others have
// got the lock between the two steps they keep it, and it returns [ErrTaken].
//
// It asks once (on a quorum twice), for as long as [AttemptTimeout] and ctx allow. Where nothing was
// changed for certain the error is [ErrUnavailable], the cause of ctx, [ErrPermission], [ErrInvalid]
// for a name that cannot be one, or [ErrClosed].
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

// ForceReleaseFrom is [Client.ForceRelease] of the leases of these holders alone, as they were told by
// [Client.Inspect], [Client.List], ForceRelease, or a [*LockedError], which names one hold of one
// of them. Whoever else holds the lock by now keeps it, also by a new lease of the same client, or
// one that was taken up by [Mutex.Attach] since. So it may be asked again and again.
//
// It returns those who did hold the lock. If none of them does any more it returns [ErrTaken], with a
// LockedError in the chain, where somebody else does, and else [ErrAbsent]; so it does
// without asking if there are no holders. It returns [ErrInvalid] for a Holder that is none of
// those: one made by the caller, or that of a LockedError where the holder was not known. A Holder
// that is Foreign has no lease that could be ended.
//
// On a quorum it ends these leases at each node that knows them, and returns who was known to one at
// least. So it also removes what is left at a minority of the nodes, and keeps others out until its TTL has
// passed: Inspect does not show it, but the LockedError of a TryLock does. And it returns ErrUnknown where so
// many nodes have lost their data less than LongestTTL ago that one of the holders may believe in a lease of
// which they know nothing any more.
//
// Other errors are those of ForceRelease. After [ErrUnknown] ask again with the same holders.
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

// fingerprints are those of the leases of all holders, for the script.
func fingerprints(holders []Holder) string {
	leases := []string{noLease} // of what is foreign: an empty list is none that ends all
	for _, h := range holders {
		leases = append(leases, h.leases)
	}
	return strings.Join(leases, " ")
}

// lookFirst is Inspect for the first step of another call. Of the time that ctx leaves it takes
// half at most, so that a node that does not answer costs only the first step.
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

// admin makes one request that is not about a lease of this client; what names it.
// changes tells whether it changes anything, so that an unknown outcome matters.
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
