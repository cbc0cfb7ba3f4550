package locker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// errNew is the answer of a node that may have forgotten a lease.
type errNew struct {
	left   time.Duration
	marker string // by which the node knows since when it is new
}

func (e errNew) Error() string {
	if e.left == 0 { // nobody has asked that
		return "the node is new, or has lost its data"
	}
	return fmt.Sprintf("the node is new, or has lost its data, and takes no part for %v more", e.left)
}

// readNew reads what a script says of a node that is new, behind the status -5.
func readNew(reply []any) errNew {
	left, _ := reply[0].(int64)
	marker, _ := reply[1].(string)
	return errNew{time.Duration(left) * time.Millisecond, marker}
}

// offer is what a node of a quorum is told besides: the token that all nodes are
// offered, so that they agree, and how to know that it has lost its data.
func (q *quorum) offer() []string {
	return []string{strconv.FormatInt(time.Now().UnixMicro(), 10), q.slack, q.longest, q.life}
}

// rest is what is left to be asked for the lock that a majority has given. The doubtful nodes may
// have had it before.
func (q *quorum) rest(c call, got tally, taken *taken, doubtful nodeSet) *rest {
	var refused nodeSet
	bid := taken.bid
	open, lost := got.ballot.unanswered()
	for i, v := range got.ballot {
		switch {
		case isNotTold(v): // it holds nothing, as those that were not asked
			got.unasked.add(i)
		case errors.Is(v.Err, ErrLocked):
			refused.add(i)
		}
	}
	if !bid.isLate() {
		bid = nil
	}
	if bid == nil && got.unasked|refused&^doubtful|open|lost == 0 {
		return nil
	}
	left := &rest{quorum: q, call: c, bid: bid, nodes: got.unasked, done: got.unasked == 0, may: taken.may, owed: lost, lost: lost}
	left.refusedBy(refused &^ doubtful)
	left.hears(got.round, open, doubtful)
	return left
}

// taken is where a lock may have been given.
type taken struct {
	may     nodeSet // that may have given it
	certain nodeSet // of these, that have
	bid     *bid    // nil if there was none
}

func (t *taken) note(b ballot) {
	for i, v := range b {
		switch {
		case !v.in:
			t.may.add(i)
		case v.Err == nil:
			t.given(i)
		case answered(v.Err), isNew(v): // it has given nothing
		case driver.OutcomeOf(v.Err) == driver.OutcomeUnknown, midway(v.Err):
			t.may.add(i)
		}
	}
}

func (t *taken) given(node int) {
	t.may.add(node)
	t.certain.add(node)
}

// noteAsked notes the nodes that left has asked for a lock which is given up: nobody hears them.
func (t *taken) noteAsked(left *rest) {
	if left != nil {
		t.may |= left.nodes
	}
}

// giveUp ends an attempt everywhere. It returns when the nodes that are known to have
// given the lock have done so, or ctx has ended; the others follow in the background.
// After that it tells done whether it has missed one that may have given the lock.
func (q *quorum) giveUp(ctx context.Context, c call, taken taken, done func(missed bool)) {
	if !q.enter() {
		done(true)
		return
	}
	known := taken.certain.len()
	over := make(chan struct{})
	go func() {
		defer q.wg.Done()
		missed := false
		if known == 0 {
			close(over)
		}
		q.poll(q.ctx, []call{c}, func(node int, answers []driver.Result) bool {
			missed = missed || taken.may.has(node) && answers[0].Err != nil && !q.nodes[node].unmet()
			if taken.certain.has(node) {
				if known--; known == 0 {
					close(over)
				}
			}
			return false
		})
		done(missed || q.ctx.Err() != nil)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	case <-q.ctx.Done():
	}
}

// attach takes the lease up at a majority of the nodes. What acquire says of failures
// holds here, too. left is with the nodes that have not answered, which may take the
// lease up late.
func (q *quorum) attach(ctx context.Context, r *request, old, unsure string, taken *taken) (token Token, owner string, left *rest, err error) {
	// A node that cannot be reached may have the lease all the same, as it was detached.
	ask := question{calls: []call{attachCall(r, old, unsure, q.offer())}, doubtful: q.all()}
	got, err := q.grant(ctx, ask, func(_ int, answers []driver.Result) (Token, error) {
		token, o, err := r.attached(answers[0].Value)
		if err == nil {
			owner = o
		}
		return token, err
	})
	taken.note(got.ballot)
	if err != nil {
		return 0, "", nil, err
	}
	open, lost := got.ballot.unanswered()
	left = &rest{quorum: q, done: true, may: taken.may, owed: lost, lost: lost}
	left.hears(got.round, open, open) // none is asked again: one that refuses has nothing to take up
	if got.tokens.largest() == 0 || r.mode == modeRead {
		return 0, owner, left, nil
	}
	token, ok := got.tokens.agreed(majority(len(q.nodes)))
	if !ok {
		token, err = q.agree(ctx, r, token)
	}
	return token, owner, left, err
}

// tokens are those of the nodes that said yes.
type tokens []Token

func (t tokens) largest() Token {
	var largest Token
	for _, token := range t {
		largest = max(largest, token)
	}
	return largest
}

// agreed returns the largest token, and whether as many nodes as needed have given
// exactly that.
func (t tokens) agreed(need int) (Token, bool) {
	largest := t.largest()
	n := 0
	for _, token := range t {
		if token == largest {
			n++
		}
	}
	return largest, n >= need
}

// A tally is what the nodes that were asked for a lock have answered.
type tally struct {
	tokens  tokens
	ballot  ballot
	unasked nodeSet
	round   *round // hears those that have not answered yet
}

// grant puts the one call that takes the lock, or what leads up to it. It returns as soon as
// the nodes have given the lock, or it is certain why not, and tells which were not asked.
// The first time it waits until it is known that the nodes are different servers, or that
// some do not answer. read reads what a node has answered, if its first answer is no error.
func (q *quorum) grant(ctx context.Context, ask question, read func(node int, answers []driver.Result) (Token, error)) (tally, error) {
	if err := q.fault(); err != nil {
		if ask.doubtful == 0 { // nor has a question before this one left anything
			err = driver.NotSent(err)
		}
		return tally{}, err
	}
	yes, b := make(tokens, 0, len(q.nodes)), make(ballot, len(q.nodes))
	if ask.moot == nil {
		ask.moot = new(atomic.Bool)
	}
	var hurried error
	round, unasked := q.canvass(ctx, ask, func(node int, answers []driver.Result) bool {
		r := answers[0]
		lost := leavesOpen(r, ask.doubtful.has(node))
		if r.Err == nil {
			var token Token
			if token, r.Err = read(node, answers); r.Err == nil {
				yes = append(yes, token)
			}
		}
		b[node] = vote{in: true, lost: lost, Result: r}
		if q.cfg.Bootstrap && b.count(isNew) == b.count(func(vote) bool { return true }) {
			return false // To know that all nodes are new, all have to be heard.
		}
		err, ok := b.granted(false)
		if !ok && ask.hasty {
			hurried = b.lockedWithout(q.silent())
			return hurried != nil
		}
		return ok && (err != nil || q.met.Load() || q.introduced(b))
	})
	for i := range b {
		if unasked.has(i) {
			b[i] = vote{in: true, Result: oneUnasked[0]}
		}
	}
	err, _ := b.granted(true)
	if hurried != nil {
		err = hurried
	}
	if fault := q.fault(); fault != nil {
		err = fault
	}
	if err != nil {
		ask.moot.Store(true)
		return tally{ballot: b}, err
	}
	q.met.Store(true)
	return tally{yes, b, unasked, round}, nil
}

func isNew(v vote) bool {
	_, is := errors.AsType[errNew](v.Err)
	return is
}

// agree makes a majority of the nodes know the token before it is used: any later
// grant is then larger. Where a majority has given exactly the same token they know it
// already, and agree need not be called. The token is never capped, and this step does not
// lengthen the lease.
//
// This is the second step of the protocol of docs/models/fence.pml.
func (q *quorum) agree(ctx context.Context, r *request, token Token) (Token, error) {
	need := majority(len(q.nodes))
	for {
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("%w: the nodes have not agreed on a fencing token: %w", ErrUnavailable, context.Cause(ctx))
		}
		agreed, larger := 0, Token(0)
		b := make(ballot, len(q.nodes))
		q.poll(ctx, []call{fenceCall(r, token)}, func(node int, answers []driver.Result) bool {
			b[node] = vote{in: true, Result: answers[0]}
			status, rest, _ := splitReply(answers[0].Value)
			switch {
			case answers[0].Err != nil:
			case status == 1:
				agreed++
			case status == 2 && len(rest) == 1:
				if t, err := readToken(rest[0]); err == nil {
					larger = max(larger, t)
				}
			}
			return agreed >= need || larger > 0
		})
		switch {
		case agreed >= need:
			return token, nil
		case larger > token:
			token = larger
		default:
			// Not marked as not sent, even if this step was not sent: the first one
			// was.
			return 0, &QuorumError{Votes: b.tell(), reason: ErrUnavailable}
		}
	}
}

// bootstrap makes the nodes take part at once if all of them say that they are new.
func (q *quorum) bootstrap(ctx context.Context, b ballot) bool {
	args := []string{q.life}
	for _, v := range b {
		e, isNew := errors.AsType[errNew](v.Err)
		if !isNew {
			return false
		}
		args = append(args, e.marker)
	}
	_, err := q.run(ctx, bootScript.call([]string{markerKey}, args))
	return err == nil
}
