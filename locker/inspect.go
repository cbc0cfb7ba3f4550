package locker

import (
	"context"
	"time"
)

// A Status is what the server knows of a lock at one moment.
type Status struct {
	// Holders are those who hold the lock; a mutex has one at the most.
	Holders []Holder
	// Waiters is how many waiters stand in the queue. Those who poll are not
	// counted, and one that crashed is until its place runs out, within 65
	// seconds, and another waiter comes by.
	Waiters int
}

// Held tells whether anybody holds the lock.
func (s Status) Held() bool { return len(s.Holders) > 0 }

// Inspect tells who holds the lock with the given name, and how many wait for it.
// It returns a [*ForeignError] if the key holds what is not a lock of this library
// and never expires.
func (c *Client) Inspect(ctx context.Context, name string) (Status, error) {
	m := c.Mutex(name)
	v, err := m.admin(ctx, call{inspectScript, []string{m.keys.record, m.keys.queue}, nil}, false)
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
