package check

import (
	"fmt"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// An attempt is what is known of one operation: an attempt to hold a lock once. Times
// that are zero are unknown.
type attempt struct {
	operation
	process int // the file that tells of it
	name    string
	mode    history.Mode
	owner   string
	try     bool
	token   uint64

	asked     history.Time
	queued    history.Time // when it was certain that it stood in the queue
	answered  history.Time
	outcome   history.What // Granted, Refused or Failed; empty if it was cut off
	class     history.Class
	deadline  history.Time // the last that is known
	used      history.Time // when the lease was last valid for certain
	ended     history.Time
	unlocking history.Time
	unlocked  history.Time
	release   release
	// detaching is when the holder has begun to leave the lease on the server for kept, and
	// detached when it had tried; left tells whether it has.
	detaching, detached history.Time
	kept                time.Duration
	left                bool
	// before is the attempt whose lease this one goes on with, and heirs are those that would
	// go on with this one's, in the order in which they asked.
	source history.Operation // of before
	before *attempt
	heirs  []*attempt
	// gone is when the holder has learned that the server did not have the lease any more.
	gone history.Time
	// writes are those to the resource.
	writes []write
	// late and far are events that show a wrong deadline, if there is one: the lease was
	// used beyond it, or it is further away than a TTL.
	late, far *history.Event
}

// An operation is what its worker calls it.
type operation struct {
	worker string
	op     int
}

func (o operation) String() string { return fmt.Sprintf("%s#%d", o.worker, o.op) }

// A release is what Unlock has said.
type release int

const (
	unanswered release = iota // or not called, or its outcome is unknown
	succeeded
	absent // the lease was not on the server any more
)

type write struct {
	sent, done history.Time
	accepted   bool
}

// add takes in an event of the attempt.
func (a *attempt) add(e history.Event) {
	if e.Deadline > a.deadline {
		a.deadline = e.Deadline
	}
	if goneText.MatchString(e.Error) && a.gone == 0 {
		a.gone = e.At
	}
	switch e.What {
	case history.Asked:
		a.name, a.mode, a.owner, a.try, a.asked = e.Name, e.Mode, e.Owner, e.Try, e.At
		a.source = e.From
	case history.Granted:
		a.outcome, a.answered, a.token = e.What, e.At, e.Token
	case history.Refused, history.Failed:
		a.outcome, a.answered, a.class = e.What, e.At, e.Class
	case history.Queued:
		a.queued = e.At
	case history.Used:
		a.used = max(a.used, e.Since)
	case history.Wrote:
		// What has no beginning may have begun when the lock was asked for.
		began := e.Since
		if began == 0 {
			began = a.asked
		}
		if e.Error == "" {
			a.writes = append(a.writes, write{began, e.At, e.Accepted})
		}
	case history.Ended:
		a.ended = e.At
	case history.Detaching:
		a.detaching, a.kept = e.At, time.Duration(e.TTL)
	case history.Detached:
		a.detached, a.left = e.At, e.Error == ""
	case history.Unlocking:
		a.unlocking = e.At
	case history.Unlocked:
		a.unlocked = e.At
		switch {
		case e.Error == "" && e.Class == "":
			a.release = succeeded
		case e.Class == history.Lost:
			a.release = absent
		}
	}
}

// A span is an interval of time.
type span struct{ from, to history.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

func (s span) meets(o span) bool { return s.from < o.to && o.from < s.to }

// certain is when the lease was held for certain: from when its holder knew of it until
// the holder last found it to be valid, or began an Unlock that found it on the server.
// Of the leases of one owner the last to be unlocked has the outcome of all. Where a lease
// goes on as another, the one ends when that is asked for, and the other begins.
func (a *attempt) certain() (s span, ok bool) {
	if a.outcome != history.Granted {
		return span{}, false
	}
	s = span{a.answered, a.used}
	if a.release == succeeded && a.owner == "" {
		s.to = max(s.to, a.unlocking)
	}
	if a.before != nil {
		s.from = a.asked
	}
	if heir := a.heir(); heir != nil {
		s.to = max(s.to, heir.asked)
	} else if a.left {
		s.to = max(s.to, a.lasts())
	}
	return s, s.to > s.from
}

// excludes tells whether both may not hold the lock at once.
func (a *attempt) excludes(b *attempt) bool {
	return a.mode.Excludes(b.mode) && (a.owner == "" || a.owner != b.owner)
}

// gaveUp tells whether a waiter has given up to wait.
func (a *attempt) gaveUp() bool {
	return !a.try && (a.outcome == history.Refused || a.outcome == history.Failed && a.class == history.Canceled)
}
