package locker

import (
	"context"
	"fmt"

	"github.com/golocker/golocker/locker/driver"
)

// ForceRelease ends all leases on the lock with the given name, of whatever kind it
// is and whoever holds it, and returns who that was. It is meant for an
// administrator who knows that the holder is dead: a holder that is alive goes on
// believing in its lease until its next renewal fails, within TTL/3 (without renewal:
// until its deadline), and only fencing tokens keep it from doing harm in that time.
//
// It returns [ErrAbsent] if nobody holds the lock, [ErrUnknown] if the server's answer
// was not learned (asking again does no harm), and a [*ForeignError] without
// touching anything if the key does not hold a lock of this library. On a quorum it returns
// ErrUnknown also where so many nodes have lost their data less than LongestTTL ago that
// somebody may believe in a lease of which they know nothing any more.
//
// It asks once, for as long as [AttemptTimeout] and ctx allow. Where nothing was changed for
// certain the error is [ErrUnavailable], the cause of ctx, [ErrPermission], [ErrInvalid] for
// a name that cannot be one, or [ErrClosed].
func (c *Client) ForceRelease(ctx context.Context, name string) ([]Holder, error) {
	m := c.Mutex(name)
	v, err := m.admin(ctx, forceRelease(name), c.lookCall(breakScript, m.keys.record, m.keys.queue, m.keys.entries), true)
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
	case status == 1 && len(rest) == 3:
		left, _ := rest[1].(int64)
		switch holders, ok := parseHolders(rest[0], left, rest[2]); {
		case ok && len(holders) == 0:
			// The last hold had run out, and nothing has noticed yet.
			return nil, absentError(name)
		case ok:
			return holders, nil
		}
	}
	return nil, oddReply("force release", v)
}

func absentError(name string) error {
	return failed(forceRelease(name), ErrAbsent)
}

func forceRelease(name string) string { return fmt.Sprintf("force release of %q", name) }

// admin makes one request that is not about a lease of this client; what names it.
// changes tells whether it changes anything, so that an unknown outcome matters.
func (m *Mutex) admin(ctx context.Context, what string, c call, changes bool) (v driver.Value, err error) {
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
	bounded, cancel := context.WithTimeout(ctx, m.cfg.attemptTimeout)
	defer cancel()
	if v, err = m.client.deployment.run(bounded, c); err == nil {
		// The first request may have shown that the nodes make no quorum.
		if fault := m.client.quorum.fault(); fault != nil {
			return nil, failed(what, fault)
		}
		return v, nil
	}
	unknown := changes && driver.OutcomeOf(err) == driver.OutcomeUnknown
	reasons := []error{requestError(m.name, late(err))}
	if ctx.Err() != nil {
		reasons = []error{context.Cause(ctx), err}
	}
	if unknown {
		reasons = append([]error{ErrUnknown}, reasons...)
	}
	return nil, failed(what, reasons...)
}
