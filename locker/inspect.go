package locker

import (
	"context"
	"fmt"
	"time"
)

// A Status is what the server knows of a lock at one moment.
type Status struct {
	// Holders are those who hold the lock; a mutex has one at the most.
	Holders []Holder
	// Waiters is how many waiters are listening for the lock to become free.
	// Those who poll are not counted, and one that crashed is for some seconds.
	Waiters int
}

// Held tells whether anybody holds the lock.
func (s Status) Held() bool { return len(s.Holders) > 0 }

// Inspect tells who holds the lock with the given name, and how many wait for it.
// It returns a [*ForeignError] if the key holds what is not a lock of this library
// and never expires.
func (c *Client) Inspect(ctx context.Context, name string) (Status, error) {
	m := c.Mutex(name)
	v, err := m.admin(ctx, call{inspectScript, []string{m.keys.record, m.keys.queue}, nil})
	if err != nil {
		return Status{}, err
	}
	list, ok := v.([]any)
	if !ok || len(list) != 4 {
		return Status{}, oddReply("inspect", v)
	}
	kind, _ := list[0].(string)
	value, _ := list[1].(string)
	left, _ := list[2].(int64)
	waiters, _ := list[3].(int64)
	s := Status{Waiters: int(waiters)}
	if kind == "none" {
		return s, nil
	}
	holder := parseRecord(value, time.Duration(left)*time.Millisecond)
	if kind != "string" || holder.Foreign && left < 0 {
		return s, &ForeignError{Name: name, Type: kind}
	}
	s.Holders = []Holder{holder}
	return s, nil
}

// ForceRelease ends the lease on the lock with the given name, whoever holds it, and
// returns who that was. It is meant for an administrator who knows that the holder
// is dead: a holder that is alive goes on believing in its lease until its next
// renewal fails, within TTL/3, and only fencing tokens keep it from doing harm in
// that time.
//
// It returns [ErrAbsent] if nobody holds the lock, and a [*ForeignError] without
// touching anything if the key does not hold a lock of this library.
func (c *Client) ForceRelease(ctx context.Context, name string) (Holder, error) {
	m := c.Mutex(name)
	v, err := m.admin(ctx, call{breakScript, []string{m.keys.record, m.keys.queue, m.keys.entries}, []string{c.link.trusted()}})
	if err != nil {
		return Holder{}, err
	}
	status, rest, ok := splitReply(v)
	switch {
	case !ok:
	case status == 0:
		return Holder{}, fmt.Errorf("locker: force release of %q: %w", name, ErrAbsent)
	case status == -2 && len(rest) == 1:
		kind, _ := rest[0].(string)
		return Holder{}, &ForeignError{Name: name, Type: kind}
	case status == 1 && len(rest) == 2:
		value, _ := rest[0].(string)
		left, _ := rest[1].(int64)
		return parseRecord(value, time.Duration(left)*time.Millisecond), nil
	}
	return Holder{}, oddReply("force release", v)
}

// admin makes one request that is not about a lease of this client.
func (m *Mutex) admin(ctx context.Context, c call) (v any, err error) {
	if m.problem != nil {
		return nil, m.problem
	}
	if err := m.client.enter(); err != nil {
		return nil, err
	}
	defer m.client.leave()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.attemptTimeout)
	defer cancel()
	v, err = m.client.link.run(ctx, c)
	return v, requestError(err)
}
