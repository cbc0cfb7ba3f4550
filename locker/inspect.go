package locker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/golocker/golocker/locker/driver"
)

// A Status is what the server knows of a lock at one moment.
type Status struct {
	// Holders are those who hold the lock. A mutex has at most one, a reentrant lock or a
	// writer has one owner, and there may be any number of readers.
	Holders []Holder
	// Waiters is how many waiters stand in the queue. Goroutines of one client that want the
	// same mutex count as one. A waiter that crashed is counted until its place runs out and
	// another waiter comes by.
	Waiters int
}

// Held tells whether anybody holds the lock.
func (s Status) Held() bool { return len(s.Holders) > 0 }

// Inspect tells who holds the lock with the given name, whatever kind of lock it is, and how
// many wait for it. It returns a [*ForeignError] if the key holds something that is not a lock
// of this library; but a string that expires may be a lock of another library, and is reported
// as a Holder that is Foreign. A replica tells what has reached it so far, which may be
// nothing.
//
// On a quorum it returns ErrUnavailable also where a majority of the nodes are new, or have
// lost their data less than LongestTTL ago, and none of the others knows who holds the lock:
// there may be a holder that does not know of that yet. The error says for how long that is so.
//
// It asks once, for as long as [AttemptTimeout] and ctx allow, and returns [ErrUnavailable] if
// the server cannot be reached or cannot serve at present, the cause of ctx if that ended
// first, [ErrPermission], [ErrInvalid] for a name that cannot be used, and [ErrClosed].
func (c *Client) Inspect(ctx context.Context, name string) (Status, error) {
	m := c.Mutex(name)
	v, err := m.admin(ctx, fmt.Sprintf("inspect %q", name), c.inspectCall(&m.keys), false)
	if err != nil {
		return Status{}, err
	}
	return parseStatus(name, v)
}

func (c *Client) inspectCall(k *keys) call {
	return c.lookCall(inspectScript, []string{k.record, k.queue})
}

// lookCall is a call of a script that looks for a lock. The nodes of a quorum are told how to
// know that they may have forgotten it.
func (c *Client) lookCall(s *script, keys []string, args ...string) call {
	if q := c.quorum; q != nil {
		return s.call(append(keys, markerKey), append(args, q.longest))
	}
	return s.call(keys, args)
}

// parseStatus reads the reply of the inspect script.
func parseStatus(name string, v driver.Value) (Status, error) {
	list, ok := v.([]any)
	if !ok || len(list) != 5 {
		return Status{}, oddReply("inspect", v)
	}
	kind, _ := list[0].(string)
	waiters, _ := list[4].(int64)
	s := Status{Waiters: int(waiters)}
	if kind == "none" {
		return s, nil
	}
	left, _ := list[2].(int64)
	if s.Holders, ok = parseHolders(list[1], left, list[3]); !ok {
		return Status{}, oddReply("inspect", v)
	}
	// Nothing is told of what stands in values of other types.
	if _, text := list[1].(string); text && (kind != "string" || s.Holders[0].Foreign && left < 0) {
		return Status{Waiters: s.Waiters}, foreignError(name, []any{kind, left})
	}
	return s, nil
}

// parseHolders reads a record of any kind as the inspect and break scripts give it, at
// the server's time now (ms). ok is false if it is none.
func parseHolders(record driver.Value, left int64, now any) (holders []Holder, ok bool) {
	switch record := record.(type) {
	case string:
		return []Holder{parseRecord(record, inMillis(left))}, true
	case []any:
		text, _ := now.(string)
		ms, err := strconv.ParseInt(text, 10, 64)
		return parseHolds(record, ms), err == nil
	}
	return nil, false
}
