package locker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A ballot is what the nodes of a quorum have answered to one call.
type ballot []vote

// A vote is the answer of one node.
type vote struct {
	in    bool // it has answered, or failed to
	clear bool // it has no vote: it was not asked, since it has nothing of the lock
	lost  bool // it was asked for the lock, and not heard in time
	driver.Result
}

// majority is how many of n nodes decide.
func majority(n int) int { return n/2 + 1 }

// A verdict reads a ballot. ok is false while votes that are still to come could
// change it.
type verdict func(b ballot) (v driver.Value, err error, ok bool)

// closed reports whether all votes are in.
func (b ballot) closed() bool {
	for _, v := range b {
		if !v.in {
			return false
		}
	}
	return true
}

// unanswered are the nodes that have not answered yet, and those that had their time.
func (b ballot) unanswered() (open, lost nodeSet) {
	for i, v := range b {
		switch {
		case !v.in:
			open.add(i)
		case v.lost:
			lost.add(i)
		}
	}
	return open, lost
}

// asFarAsHeard is the ballot in which the nodes that have not answered yet count as
// failing to.
func (b ballot) asFarAsHeard() ballot {
	all := slices.Clone(b)
	for i := range all {
		if !all[i].in {
			all[i].in, all[i].Err = true, errUnheard
		}
	}
	return all
}

var errUnheard = errors.New("locker: no answer yet")

// count returns how many votes satisfy is, of those that are in.
func (b ballot) count(is func(v vote) bool) int {
	n := 0
	for _, v := range b {
		if v.in && is(v) {
			n++
		}
	}
	return n
}

// says leaves out nodes that have no vote: they are asked all the same where another call
// of the batch concerns them.
func says(answer int64) func(vote) bool {
	return func(v vote) bool { return !v.clear && v.Err == nil && v.Value == answer }
}

// heldVerdict is about renew and release: a majority of the nodes still knew the lease, or
// that is no longer possible. Otherwise nothing is known.
//
// Where some nodes have no vote, fewer of the others need say so: those without a vote are
// free, and together with the nodes that have released the lock they let anybody have it. That
// a node has no vote says nothing of what has become of the lease.
func heldVerdict(b ballot) (driver.Value, error, bool) {
	clear := b.count(func(v vote) bool { return v.clear })
	voters := len(b) - clear
	yes, absent, taken := b.count(says(1)), b.count(says(0)), b.count(says(-1))
	lost := absent+taken >= majority(len(b)) || b.closed() && voters-absent-taken < majority(voters)
	switch {
	case yes >= majority(len(b))-clear:
		return int64(1), nil, true
	case lost && taken > 0:
		return int64(-1), nil, true
	case lost:
		return int64(0), nil, true
	case b.closed():
		return nil, b.failure(), true
	}
	return nil, nil, false
}

// allVerdict is about what has to be done on every node, such as to end an attempt.
func allVerdict(b ballot) (driver.Value, error, bool) {
	if !b.closed() {
		return nil, nil, false
	}
	if b.count(func(v vote) bool { return v.Err == nil }) == len(b) {
		return int64(1), nil, true
	}
	return nil, b.failure(), true
}

// knownVerdict waits for all nodes, and lets read make one answer out of those of at least a
// majority. held reports whether the answer is about somebody who holds the lock. That nobody does
// is said only if no majority may have forgotten the lock. A node whose answer has no known form
// counts as having said nothing.
func knownVerdict(formed func(driver.Value) bool, read func(answers []answer, q quota) (v driver.Value, held bool)) verdict {
	return func(b ballot) (driver.Value, error, bool) {
		if !b.closed() {
			return nil, nil, false
		}
		var answers []answer
		young := 0
		b = slices.Clone(b)
		for i, v := range b {
			if v.Err != nil {
				continue
			}
			a := readAnswer(v.Value)
			if !formed(a.Value) {
				b[i].Err = oddReply("a look", v.Value)
				continue
			}
			if a.young != 0 {
				young++
			}
			answers = append(answers, a)
		}
		most := majority(len(b))
		if len(answers) < most {
			return nil, b.failure(), true
		}
		old := len(answers) - young
		v, held := read(answers, quota{least: old - (len(b) - most), most: most})
		if !held && old < most {
			return nil, b.forgotten(most - old), true
		}
		return v, nil, true
	}
}

// A quota is how many of the nodes decide what is known. Of those that have forgotten
// nothing, it takes as many as make a majority together with all nodes that may know a hold
// but do not say so, since they were not heard or may have forgotten it. That number may be 0
// or less. Otherwise it takes a majority of all.
type quota struct{ least, most int }

// An answer is what a node says of a lock.
type answer struct {
	driver.Value
	young time.Duration // for how long the node may have forgotten a lease; 0 if it has not
}

// readAnswer reads the reply of a script that looks for a lock.
func readAnswer(v driver.Value) answer {
	if status, rest, _ := splitReply(v); status == -5 && len(rest) == 2 {
		left, _ := rest[0].(int64)
		return answer{rest[1], max(time.Duration(left)*time.Millisecond, 1)}
	}
	return answer{v, 0}
}

// forgotten is the failure where missing more of the nodes that have answered would have to be
// ones that have forgotten nothing.
func (b ballot) forgotten(missing int) error {
	all := slices.Clone(b)
	var young []time.Duration
	for i, v := range all {
		if v.Err != nil {
			continue
		}
		if a := readAnswer(v.Value); a.young != 0 {
			young = append(young, a.young)
			all[i].Err = errNew{left: a.young}
		}
	}
	slices.Sort(young)
	return &QuorumError{Votes: all.tell(), reason: fmt.Errorf("%w: %w", ErrUnavailable, errForgotten{young[missing-1]})}
}

// errForgotten says that most nodes do not know whether the lock is held.
type errForgotten struct{ left time.Duration }

func (e errForgotten) Error() string {
	return fmt.Sprintf("so many nodes are new, or have lost their data, that a lease may be forgotten which its holder believes in for %v more", e.left)
}

// believe treats the nodes as having forgotten nothing if all of them say that they are
// new. It is for users who say that they are.
func (b ballot) believe() {
	all := slices.Clone(b)
	for i, v := range b {
		a := readAnswer(v.Value)
		if !v.in || v.Err != nil || a.young == 0 {
			return
		}
		all[i].Value = a.Value
	}
	copy(b, all)
}

// granted returns whether the nodes that were asked for the lock have given it, or why
// not. A vote without an error is a yes. ok is false while votes that are still to come
// could change the result; if final, none is to come.
//
// The answer is that others hold the lock where it can be acquired once they let go.
// The answer is a reason that will not pass by itself where so many nodes give one that
// no majority is left. But of two readers that each want to write, at least one has to
// be told, and the other has a majority at which it came first. Where a majority may
// have given the lock, and some replies were lost, nothing is known.
func (b ballot) granted(final bool) (err error, ok bool) {
	need := majority(len(b))
	spare := len(b) - need
	isLocked := func(v vote) bool { return errors.Is(v.Err, ErrLocked) }
	isOther := func(v vote) bool { return v.Err != nil && !isLocked(v) && answered(v.Err) }
	isDeadlock := func(v vote) bool { return errors.Is(v.Err, ErrDeadlock) }
	locked, other := b.count(isLocked), b.count(isOther)
	yes := b.count(func(v vote) bool { return v.Err == nil })
	silent := b.count(func(v vote) bool { return v.Err != nil }) - locked - other
	lost := b.count(func(v vote) bool {
		return v.Err != nil && !answered(v.Err) && !isNew(v) && driver.OutcomeOf(v.Err) == driver.OutcomeUnknown
	})
	if final {
		unheard := len(b) - yes - locked - other - silent
		silent, lost = silent+unheard, lost+unheard
	}
	switch {
	case yes >= need:
		return nil, true
	case silent > spare:
		return b.failure(), true
	case other > spare:
		return b.saidOther(isOther), true
	case locked >= need:
		return b.saidLocked(), true
	case !final && !b.closed():
		return nil, false
	case yes+lost >= need:
		return b.failure(), true
	case b.count(isDeadlock) > 0:
		return b.said(isDeadlock), true
	case locked > 0:
		return b.saidLocked(), true
	case yes+silent >= need: // with the nodes that cannot be asked now it may be acquired
		return b.failure(), true
	default:
		return b.saidOther(isOther), true
	}
}

// hinges reports whether the nodes that were passed over as suspect could make the yes
// votes a majority. What keeps the lock at the other nodes may be a leftover that is
// nobody's lease.
func (b ballot) hinges() bool {
	passed := b.count(func(v vote) bool { return errors.Is(v.Err, errSuspect) })
	return passed > 0 && b.count(func(v vote) bool { return v.Err == nil })+passed >= majority(len(b))
}

// lockedWithout returns that others hold the lock, if that is what the vote comes to where these
// nodes do not answer. A caller that waited for these nodes would keep others from having the
// lock for as long, and they would do the same to it.
func (b ballot) lockedWithout(nodes nodeSet) error {
	all := slices.Clone(b)
	for i, v := range all {
		if !v.in && nodes.has(i) {
			all[i] = vote{in: true, Result: driver.Result{Err: driver.NotSent(errSuspect)}}
		}
	}
	if err, ok := all.granted(false); ok && errors.Is(err, ErrLocked) {
		return b.saidLocked()
	}
	return nil
}

// saidOther is said, but returns that a lease is gone only where no node says more: a
// node may not have had the lease, or may have forgotten it.
func (b ballot) saidOther(is func(v vote) bool) error {
	more := func(v vote) bool { return is(v) && !errors.Is(v.Err, ErrAbsent) }
	if b.count(more) > 0 {
		return b.said(more)
	}
	return b.said(is)
}

// saidLocked is said of the votes that say that others hold the lock. Of the holders it names
// the one that most votes name: a holder may be left over from a lease that is nobody's.
func (b ballot) saidLocked() error {
	nodes, most := map[string]int{}, ""
	for _, v := range b {
		if locked, ok := errors.AsType[*LockedError](v.Err); ok && locked.by != "" {
			if nodes[locked.by]++; nodes[locked.by] > nodes[most] {
				most = locked.by
			}
		}
	}
	return b.said(func(v vote) bool {
		locked, ok := errors.AsType[*LockedError](v.Err)
		return ok && (most == "" || locked.by == most)
	})
}

// said gives the reason of the first vote that satisfies is.
func (b ballot) said(is func(v vote) bool) error {
	for _, v := range b {
		if v.in && is(v) {
			return &QuorumError{Votes: b.tell(), reason: v.Err}
		}
	}
	return b.failure()
}

// failure says that too few nodes have answered, and what one of them said if none can
// have done what it was asked. It is marked as not sent only if no node has been sent
// anything, apart from those that take no part.
//
// Where the application has closed its own clients of so many nodes that no majority is left, it says
// that: waiting cannot mend it. A single node whose client is closed counts as one that is down.
func (b ballot) failure() error {
	var refused, unable error
	refusals, closed, sent, certain := 0, 0, false, true
	for _, v := range b {
		if !v.in || v.Err == nil {
			sent, certain = true, false
			continue
		}
		if isNew(v) {
			continue // It has done nothing that counts, and what a SET did there is known.
		}
		outcome := driver.OutcomeOf(v.Err)
		sent = sent || outcome != driver.OutcomeNotSent
		certain = certain && outcome != driver.OutcomeUnknown
		if noConnection(v.Err) {
			closed++
		}
		switch reply, ok := errors.AsType[*driver.ServerError](v.Err); {
		case ok && transient(v.Err):
			unable = reply
		case ok:
			refused = reply // without a mark that it was not sent: another may have been
			refusals++
		}
	}
	done := b.count(func(v vote) bool { return v.Err == nil })
	e := &QuorumError{Votes: b.tell(), reason: ErrUnavailable, most: done >= majority(len(b))}
	switch {
	case refusals > len(b)-majority(len(b)):
		e.reason = forbidden(refused)
	case closed > len(b)-majority(len(b)):
		e.reason = errNoConnection
	case certain && unable != nil: // else it would say that nothing was executed
		e.reason = fmt.Errorf("%w: %w", ErrUnavailable, unable)
	}
	if !sent {
		return driver.NotSent(e)
	}
	return e
}

func (b ballot) tell() []Vote {
	votes := make([]Vote, len(b))
	for i, v := range b {
		votes[i] = Vote{Node: i, Err: v.Err}
		switch {
		case !v.in:
			votes[i].Err, votes[i].Answer = errUnheard, "no answer yet"
		case v.Err != nil:
			votes[i].Answer = v.Err.Error()
		default:
			votes[i].Answer = answerText(v.Value)
		}
	}
	return votes
}
