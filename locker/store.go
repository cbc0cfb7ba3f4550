package locker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A store makes the requests of locks to one deployment and reads the replies.
// It keeps no state of locks. Every request may be sent again under the same ids.
type store struct {
	link *link
}

// fenceRetention is how long the last fencing token is remembered after a release,
// or twice the TTL where that is longer. After it, and after a loss of the data,
// tokens go on from the server's clock.
const fenceRetention = 24 * time.Hour

func retention(ttl time.Duration) time.Duration { return max(fenceRetention, 2*ttl) }

// voidLife is how long the id of a given-up attempt is remembered: longer than a
// request can be on its way.
func voidLife(ttl time.Duration) time.Duration { return max(time.Minute, 2*ttl) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// A request is one attempt at a lock. All of its messages carry the same id.
type request struct {
	name   string
	keys   *keys
	id     string
	tail   string // "<label>|<metadata>"
	ttl    time.Duration
	fenced bool
}

// A place is where a waiter wants to be told that the lock is free. The zero
// place wants nothing.
type place struct {
	reservation string
	channel     string
	life        time.Duration // until the entry counts as abandoned
}

var errVoid = errors.New("locker: this attempt was given up")

// set takes a free lock by the command that any other SET NX lock uses, too.
// Nothing is known of the holder where it fails.
func (s *store) set(ctx context.Context, r *request) (bool, error) {
	v, err := s.link.do(ctx, driver.Command{
		Args:     []string{"SET", r.keys.record, record(r.id, r.ttl, r.tail), "NX", "PX", millis(r.ttl)},
		FirstKey: 1, NumKeys: 1,
	})
	if err != nil || v == nil {
		return false, err
	}
	if v != "OK" {
		return false, oddReply("SET", v)
	}
	return true, nil
}

// acquire takes the lock, or says who holds it and takes the place in the queue.
func (s *store) acquire(ctx context.Context, r *request, p place) (Token, error) {
	v, err := s.link.run(ctx, call{acquireScript,
		[]string{r.keys.record, r.keys.fence, r.keys.queue, r.keys.entries, r.keys.void},
		[]string{r.id, r.tail, millis(r.ttl), flag(r.fenced), millis(retention(r.ttl)),
			p.reservation, p.channel, millis(p.life)}})
	if err != nil {
		return 0, err
	}
	status, rest, ok := splitReply(v)
	switch {
	case !ok:
	case status == 1 && len(rest) == 1:
		return readToken(rest[0])
	case status == 0 && len(rest) == 2:
		left, ok1 := rest[0].(int64)
		value, ok2 := rest[1].(string)
		if ok1 && ok2 {
			// The server rounds: 0 is less than a millisecond.
			return 0, &LockedError{Name: r.name, Holder: parseRecord(value, time.Duration(max(left, 1))*time.Millisecond)}
		}
	case status == -1:
		return 0, errVoid
	case status == -2 && len(rest) == 1:
		kind, _ := rest[0].(string)
		return 0, &ForeignError{Name: r.name, Type: kind}
	case status == -3:
		return 0, &ForeignError{Name: r.name, Type: "string"}
	}
	return 0, oddReply("acquire", v)
}

// attach takes up the lease with the id old under r.id. unsure is the id under
// which it may have been taken up before by a request of unknown outcome, or "".
func (s *store) attach(ctx context.Context, r *request, old, unsure string) (Token, error) {
	v, err := s.link.run(ctx, call{attachScript,
		[]string{r.keys.record, r.keys.fence, r.keys.void},
		[]string{old, r.id, r.tail, millis(r.ttl), flag(r.fenced), millis(retention(r.ttl)), unsure}})
	if err != nil {
		return 0, err
	}
	status, rest, ok := splitReply(v)
	switch {
	case !ok:
	case status == 1 && len(rest) == 1:
		return readToken(rest[0])
	case status == 0:
		return 0, ErrAbsent
	case status == -1:
		return 0, ErrTaken
	case status == -2 && len(rest) == 1:
		kind, _ := rest[0].(string)
		return 0, &ForeignError{Name: r.name, Type: kind}
	}
	return 0, oddReply("attach", v)
}

func renewCall(k *keys, id string, ttl time.Duration, fenced bool) call {
	keep := "0"
	if fenced {
		keep = millis(retention(ttl))
	}
	return call{renewScript, []string{k.record, k.fence}, []string{id, millis(ttl), keep}}
}

// releaseCall ends a lease. late tells that a request which took it may still be
// on its way to the server.
func (s *store) releaseCall(k *keys, id string, ttl time.Duration, late bool) call {
	return call{releaseScript, []string{k.record, k.queue, k.entries, k.void},
		[]string{id, s.link.trusted(), remember(ttl, late)}}
}

// giveUpCall ends an attempt. late tells that one of its requests may still be on
// its way to the server.
func (s *store) giveUpCall(r *request, reservation string, late bool) call {
	return call{giveUpScript, []string{r.keys.record, r.keys.queue, r.keys.entries, r.keys.void},
		[]string{r.id, s.link.trusted(), reservation, remember(r.ttl, late)}}
}

func remember(ttl time.Duration, late bool) string {
	if !late {
		return "0"
	}
	return millis(voidLife(ttl))
}

func unattachCall(r *request, old string) call {
	return call{unattachScript, []string{r.keys.record, r.keys.void}, []string{old, r.id, millis(voidLife(r.ttl))}}
}

// heldReply reads the reply of renew and release: nil, ErrAbsent or ErrTaken.
func heldReply(v driver.Value) error {
	switch v {
	case int64(1):
		return nil
	case int64(0):
		return ErrAbsent
	case int64(-1):
		return ErrTaken
	}
	return oddReply("renew or release", v)
}

func splitReply(v driver.Value) (status int64, rest []any, ok bool) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return 0, nil, false
	}
	status, ok = list[0].(int64)
	return status, list[1:], ok
}

func readToken(v any) (Token, error) {
	text, _ := v.(string)
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, oddReply("fencing token", v)
	}
	return Token(token), nil
}

// oddReply is the error of a reply that no script of ours gives. What the server
// did is unknown then.
func oddReply(what string, v driver.Value) error {
	return fmt.Errorf("locker: reply to %s of unexpected form %T", what, v)
}
