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
	link       *link // nil on a quorum, where locks are taken by its vote
	deployment deployment
}

// fenceRetention is how long the last fencing token is remembered after a release,
// or twice the TTL where that is longer. After it, and after a loss of the data,
// tokens go on from the server's clock.
const fenceRetention = 24 * time.Hour

func retention(ttl time.Duration) time.Duration { return max(fenceRetention, 2*ttl) }

// voidLife is how long the id of an attempt is remembered after its end if one of
// its requests was not answered: longer than a request can be on its way.
func voidLife(ttl time.Duration) time.Duration { return max(time.Minute, 2*ttl) }

// echoLife is how long it is remembered if all were answered. A request that was
// may arrive once more, by a proxy that repeats it.
const echoLife = 10 * time.Second

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// keepFence is for how many ms a script keeps the last token; "0" if the lock has none.
func keepFence(fenced bool, ttl time.Duration) string {
	if !fenced {
		return "0"
	}
	return millis(retention(ttl))
}

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
	mode   mode
	id     string
	owner  string // "" for a plain mutex
	tail   string // "<label>|<metadata>"
	ttl    time.Duration
	px     string // the same in ms
	fenced bool
	unfair bool

	// otherHold is the id of a hold that the owner has, if one is known; or noHold or
	// noHoldLately.
	otherHold string

	native [6]string // the arguments of the SET, which is made once
}

// kindUnfair is what a script is told in the place of [modeMutex].
const kindUnfair = "M"

// A place is where a waiter stands in the queue, and where it wants to be told that
// it has been granted the lock. The zero place wants neither.
type place struct {
	reservation string
	channel     string        // "" if it polls
	life        time.Duration // until the entry counts as abandoned
}

var errVoid = errors.New("locker: this attempt was given up")

// set takes a free lock by the command that any other SET NX lock uses, too.
// Nothing is known of the holder where it fails.
func (s *store) set(ctx context.Context, r *request) (bool, error) {
	r.native = [...]string{"SET", r.keys.record, record(r.id, r.px, r.tail), "NX", "PX", r.px}
	v, err := s.link.do(ctx, driver.Command{Args: r.native[:], FirstKey: 1, NumKeys: 1})
	if err != nil || v == nil {
		return false, err
	}
	if v != "OK" {
		return false, oddReply("SET", v)
	}
	return true, nil
}

// acquire takes the lock, or says who holds it and takes the place in the queue. seq
// is what tells this place from an earlier one of the same reservation; "" if there is
// none.
func (s *store) acquire(ctx context.Context, r *request, p place) (token Token, seq string, err error) {
	v, err := s.link.run(ctx, acquireCall(r, p, s.link.trusted(), nil))
	if err != nil {
		return 0, "", err
	}
	return r.acquired(v)
}

// acquireCall makes the call of acquire; a node of a quorum is told offer besides.
func acquireCall(r *request, p place, trusted string, offer []string) call {
	kind := string(r.mode)
	if r.unfair {
		kind = kindUnfair
	}
	keys := r.keys.all(r.id, true)
	args := append(make([]string, 0, 15), r.id, kind, r.owner, r.tail, millis(r.ttl), keepFence(r.fenced, r.ttl),
		p.reservation, p.channel, millis(p.life), trusted, r.otherHold)
	if offer != nil {
		keys, args = append(keys, markerKey), append(args, offer...)
	}
	return r.mode.family().acquire.call(keys, args)
}

// Where things stand in the arguments of acquireCall.
const (
	acquireTTL         = 4
	acquireReservation = 6
	acquireChannel     = 7
)

// acquired reads the reply.
func (r *request) acquired(v driver.Value) (token Token, seq string, err error) {
	status, rest, ok := splitReply(v)
	switch {
	case !ok:
	case status == 1 && len(rest) >= 1:
		token, err = readToken(rest[0])
		return token, "", err
	case status == 0 && len(rest) == 0:
		return 0, "", &LockedError{Name: r.name}
	case status == 2 && len(rest) == 0:
		return 0, "", errNotTold
	case status == 0 && len(rest) >= 3:
		left, ok1 := rest[0].(int64)
		value, ok2 := rest[1].(string)
		seq, ok3 := rest[2].(string)
		if ok1 && ok2 && ok3 {
			locked := r.locked(left, value)
			if len(rest) == 4 {
				locked.healed = rest[3] == int64(1)
				if id, ok := rest[3].(string); ok {
					locked.Holder.leases = fingerprint(id)
				}
			}
			return 0, seq, locked
		}
	case status == -1:
		return 0, "", errVoid
	case status == -2 && len(rest) >= 1:
		return 0, "", foreignError(r.name, rest)
	case status == -3:
		return 0, "", foreignError(r.name, []any{"string"})
	case status == -4:
		return 0, "", &DeadlockError{Name: r.name}
	case status == -5 && len(rest) == 2:
		return 0, "", readNew(rest)
	}
	return 0, "", oddReply("acquire", v)
}

// locked says who is in the way, for at least left ms.
func (r *request) locked(left int64, value string) *LockedError {
	if !r.mode.owned() {
		return &LockedError{Name: r.name, Holder: parseRecord(value, remaining(left)), by: fingerprint(recordID(value))}
	}
	h, _ := parseHold(value, 0)
	h.Remaining = remaining(left)
	return &LockedError{Name: r.name, Holder: h, by: h.Owner}
}

// attach takes up the lease with the id old under r.id. unsure is the id under
// which it may have been taken up before by a request of unknown outcome, or "".
func (s *store) attach(ctx context.Context, r *request, old, unsure string) (token Token, owner string, err error) {
	v, err := s.link.run(ctx, attachCall(r, old, unsure, nil))
	if err != nil {
		return 0, "", err
	}
	return r.attached(v)
}

// attachCall makes the call of attach; a node of a quorum is told offer besides.
func attachCall(r *request, old, unsure string, offer []string) call {
	remember := millis(voidLife(r.ttl))
	args := []string{old, r.id, r.tail, millis(r.ttl), flag(r.fenced), millis(retention(r.ttl)), unsure, remember}
	if r.mode.owned() {
		args = []string{old, r.id, string(r.mode), r.tail, millis(r.ttl), flag(r.fenced), millis(retention(r.ttl)), unsure, remember}
	}
	keys := []string{r.keys.record, r.keys.fence, r.keys.over(r.id), r.keys.over(old)}
	if unsure != "" {
		keys = append(keys, r.keys.over(unsure))
	}
	if offer != nil {
		keys = append(keys, markerKey)
	}
	return r.mode.family().attach.call(keys, append(args, offer...))
}

// attached reads the reply.
func (r *request) attached(v driver.Value) (token Token, owner string, err error) {
	status, rest, ok := splitReply(v)
	switch {
	case !ok:
	case status == 1 && len(rest) >= 1:
		if len(rest) == 2 {
			owner, _ = rest[1].(string)
		}
		token, err = readToken(rest[0])
		return token, owner, err
	case status == 0:
		return 0, "", ErrAbsent
	case status == -1 && len(rest) == 1:
		side, _ := rest[0].(string)
		return 0, "", otherSide(side)
	case status == -1:
		return 0, "", ErrTaken
	case status == -2 && len(rest) >= 1:
		return 0, "", foreignError(r.name, rest)
	case status == -5 && len(rest) == 2:
		return 0, "", readNew(rest)
	}
	return 0, "", oddReply("attach", v)
}

// otherSide is the error where the detached lease is one of the other side of a read-write
// lock, by the letter of its mode.
func otherSide(of string) error {
	side := Reading
	if of == string(modeWrite) {
		side = Writing
	}
	return &failedError{text: textPrefix + "not held: the detached lease is one for " + string(side) + "; take it up as that", reasons: []error{ErrTaken}}
}

// fenceCall asks a node of a quorum to agree to a token.
func fenceCall(r *request, token Token) call {
	return r.mode.family().fence.call([]string{r.keys.record, r.keys.fence}, []string{r.id, token.String(), millis(retention(r.ttl))})
}

// renewCall lengthens a lease. agreed is the token that the nodes of a quorum agreed
// on, or 0.
func renewCall(m *Mutex, id string, ttl time.Duration, fenced bool, agreed Token) call {
	token := ""
	if agreed != 0 {
		token = agreed.String()
	}
	keys := []string{m.keys.record, m.keys.fence}
	if !fenced {
		keys = keys[:1]
	}
	return m.mode.family().renew.call(keys, []string{id, millis(ttl), keepFence(fenced, ttl), token})
}

// releaseCall ends a lease. Its id is remembered for as long as remember says, where a request
// that takes the lock under it may still arrive. reservation is where it waited, or "": it may
// stand there still, or again.
func (s *store) releaseCall(m *Mutex, id, reservation string, remember time.Duration) call {
	args := append(make([]string, 0, 4), id, s.deployment.trusted(), millis(remember))
	if reservation != "" {
		args = append(args, reservation)
	}
	return m.mode.family().release.call(m.keys.all(id, remember > 0), args)
}

// giveUpCall ends an attempt, or on a quorum one try of a waiter that keeps its place.
func (s *store) giveUpCall(r *request, reservation string, remember time.Duration) call {
	args := []string{r.id, s.deployment.trusted(), millis(remember), reservation}
	if s.link == nil && reservation == "" {
		args = append(args, flag(true))
	}
	return r.mode.family().giveUp.call(r.keys.all(r.id, remember > 0), args)
}

func unattachCall(r *request, old string, quorum bool) call {
	keys := []string{r.keys.record, r.keys.over(r.id)}
	if quorum {
		keys = append(keys, r.keys.over(old))
	}
	return r.mode.family().unattach.call(keys, []string{old, r.id, millis(voidLife(r.ttl))})
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
