package locker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

// A QuorumError says how the nodes of a quorum voted where no majority gave the lock, or no
// majority answered at all. Its chain has the reason: a [*LockedError] where others hold it,
// [ErrUnavailable] where too few nodes answered, [ErrClosed] where the application has closed
// its own clients of too many.
type QuorumError struct {
	Votes  []Vote // of all nodes, in the order of the list given to [NewQuorum]
	reason error
	most   bool // most nodes have done what they were asked
}

// A Vote is what one node of a quorum said.
type Vote struct {
	Node   int    // the node's place in the list given to [NewQuorum], from 0
	Answer string // for people to read
	Err    error  // why there was no answer, if there was none
}

func (e *QuorumError) Error() string {
	var b strings.Builder
	why := textPrefix + "no majority"
	if e.reason != nil {
		why = e.reason.Error()
	}
	if errors.Is(e.reason, ErrLocked) && e.undecided() {
		why = textPrefix + "no majority has given the lock, nor says who holds it"
	}
	fmt.Fprintf(&b, "%s (quorum of %d nodes:", why, len(e.Votes))
	for i, v := range e.Votes {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " node %d: %s", v.Node, strings.TrimPrefix(v.Answer, textPrefix))
	}
	b.WriteByte(')')
	return b.String()
}

// mostDone reports whether err, of a call that all nodes were to execute, says that a
// majority has executed it.
func mostDone(err error) bool {
	e, ok := errors.AsType[*QuorumError](err)
	return ok && e.most
}

// someMayHave reports whether err, of a call to all nodes, says that some have done what they were
// asked, or may have, although so many have refused that the call as a whole has failed.
func someMayHave(err error) bool {
	e, ok := errors.AsType[*QuorumError](err)
	return ok && slices.ContainsFunc(e.Votes, func(v Vote) bool {
		return v.Err == nil || driver.OutcomeOf(v.Err) == driver.OutcomeUnknown
	})
}

// lacksNewNodes reports whether a call has failed for want of the votes of nodes that are new,
// and of no others: asking again at once is of no use.
func lacksNewNodes(err error) bool {
	e, ok := errors.AsType[*QuorumError](err)
	if !ok {
		return false
	}
	young, refused, open := 0, 0, 0
	for _, v := range e.Votes {
		_, isNew := errors.AsType[errNew](v.Err)
		switch {
		case isNew:
			young++
		case answered(v.Err):
			refused++
		case leftOut(v.Err):
			open++
		case v.Err != nil:
			return false
		}
	}
	decided := len(e.Votes)-young-refused < majority(len(e.Votes)) // whatever the others would have said
	return young > 0 && (open == 0 || decided)
}

// leftOut reports whether err is of a node that was not asked, or not waited for.
func leftOut(err error) bool { return errors.Is(err, errUnheard) || errors.Is(err, errUnasked) }

// undecided reports whether the lock is held by nobody, for all that is known: no
// majority names the same holder, and no holder is a reader, of which there may be
// many.
func (e *QuorumError) undecided() bool {
	nodes := map[string]int{}
	for _, v := range e.Votes {
		if locked, ok := errors.AsType[*LockedError](v.Err); ok {
			if nodes[locked.by]++; nodes[locked.by] >= majority(len(e.Votes)) || locked.Holder.Mode == Reading {
				return false
			}
		}
	}
	return true
}

// silent reports whether a node has failed to say whether the lock can be acquired; a node
// that was left out has not failed to.
func (e *QuorumError) silent() bool {
	return slices.ContainsFunc(e.Votes, func(v Vote) bool {
		return v.Err != nil && !answered(v.Err) && !leftOut(v.Err)
	})
}

// Unwrap returns the reason.
func (e *QuorumError) Unwrap() error { return e.reason }

func statusText(s Status, err error) string {
	switch {
	case err != nil:
		return "another kind of value"
	case s.Held():
		return "held"
	}
	return "free"
}

// answerText names what the scripts reply, and a SET that has given the lock.
func answerText(v driver.Value) string {
	if v == "OK" {
		return "yes"
	}
	if list, ok := v.([]any); ok && len(list) == 5 {
		if _, ok := list[0].(string); ok { // says the script that looks for a lock
			return statusText(parseStatus("", v))
		}
	}
	status, isInt := v.(int64)
	if !isInt {
		var ok bool
		if status, _, ok = splitReply(v); !ok {
			return "an answer of another form"
		}
	}
	switch status {
	case 1:
		return "yes"
	case 0:
		return "no"
	case -1:
		return "no longer"
	case -2, -3:
		return "another kind of value"
	case -4:
		return "deadlock"
	case -5:
		return "new, and not taking part yet"
	}
	return "answer " + strconv.FormatInt(status, 10)
}
