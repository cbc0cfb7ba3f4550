package locker

import (
	"context"
	"errors"

	"github.com/golocker/golocker/locker/driver"
)

// A try is what an attempt asks for at one time.
type try struct {
	first bool // nothing was asked before
	brief bool // it need not say who holds the lock
	more  bool // another one follows that may do better
}

// acquire takes the lock at a majority of the nodes, or says why it could not. In that
// case some nodes may have given the lock all the same, which taken tells. It is then
// for the caller to ask again under the same id, or to end the attempt by
// [quorum.giveUp] and to make the next one under another id.
//
// A first try asks a majority of the nodes. The others are for the caller to have asked: left is
// these nodes, together with those that were asked too little. scripted tells whether more was
// asked than what leads up: then the server has to know for a while that the id is over.
func (q *quorum) acquire(ctx context.Context, r *request, p place, try try, taken *taken) (token Token, left *rest, scripted bool, err error) {
	offer := q.offer()
	c := campaign{q: q, request: r, try: try, full: acquireCall(r, p, q.trusted(), offer), read: q.reader(r, taken), taken: taken}
	if try.first && !r.mode.owned() && p.reservation == "" && q.met.Load() {
		c.lead = q.lead(r, c.full, offer)
	}
	c.open(ctx)
	if c.toldLittle() && ctx.Err() == nil {
		c.put(ctx, question{calls: []call{c.full}})
	}
	if !try.more && errors.Is(c.err, ErrLocked) && c.got.ballot.hinges() && ctx.Err() == nil {
		// A caller that tries once is not told that others have the lock because a node was
		// spared.
		c.insist(ctx)
	}
	if c.err != nil && q.cfg.Bootstrap && q.bootstrap(ctx, c.got.ballot) {
		c.put(ctx, question{calls: []call{c.full}})
	}
	if c.err != nil {
		return 0, nil, c.scripted, c.err
	}
	left = q.rest(c.full, c.got, taken, c.doubtful)
	if !r.fenced || r.mode == modeRead {
		return 0, left, c.scripted, nil
	}
	q.diskless.lockFenced()
	token, ok := c.got.tokens.agreed(majority(len(q.nodes)))
	if ok {
		return token, left, c.scripted, nil
	}
	left.ask()
	if token, err = q.agree(ctx, r, token); err != nil {
		taken.noteAsked(left)
	}
	return token, left, c.scripted, err
}

// A campaign is what a try does to have the lock at a majority of the nodes: it puts questions
// to them, one after the other, until it has the answer.
type campaign struct {
	q        *quorum
	request  *request
	try      try
	full     call   // the script for all cases
	lead     []call // what leads up to it; nil if nothing does
	read     func(node int, answers []driver.Result) (Token, error)
	taken    *taken
	doubtful nodeSet // may have had the lock before they were asked last
	scripted bool    // more was asked than what leads up

	// What has become of the last question.
	got tally
	err error
}

// put puts a question, and adds to what is known to be taken.
func (c *campaign) put(ctx context.Context, ask question) {
	c.scripted = c.scripted || ask.lead == nil
	c.doubtful = c.taken.may
	ask.doubtful, ask.hasty = c.doubtful, c.try.more
	c.got, c.err = c.q.grant(ctx, ask, c.read)
	c.taken.note(c.got.ballot)
}

// open puts the first question.
func (c *campaign) open(ctx context.Context) {
	ask := question{calls: []call{c.full}, lead: c.lead}
	if c.lead != nil && c.lead[0].script == nil {
		c.taken.bid = &bid{life: voidLife(c.request.ttl)}
		ask.bid, ask.moot = c.taken.bid, &c.taken.bid.moot
	}
	c.put(ctx, ask)
	leadOnly := c.ledUp() && c.got.unasked.len() == len(c.q.nodes)-majority(len(c.q.nodes))
	c.scripted = !leadOnly
}

// ledUp reports whether nodes were led up to by less than the script for all cases.
func (c *campaign) ledUp() bool { return c.lead != nil && c.lead[0].script != c.full.script }

// toldLittle reports whether the script for all cases would say more than what led up to it:
// for how long a node is new, or who holds the lock.
func (c *campaign) toldLittle() bool {
	if c.err == nil || !c.ledUp() {
		return false
	}
	return c.got.ballot.count(isNew)+c.got.ballot.count(isNotTold) > 0 || !c.try.brief && errors.Is(c.err, ErrLocked)
}

// insist also asks the nodes that are spared. An answer that is no better than the one before is
// left out: the node does not answer.
func (c *campaign) insist(ctx context.Context) {
	got, err := c.got, c.err
	c.put(ctx, question{calls: []call{c.full}, earnest: true})
	if errors.Is(c.err, ErrUnavailable) {
		c.got, c.err = got, err
	}
}
