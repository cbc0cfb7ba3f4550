package locker

import (
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// An objection is why a node is of no use although it answers: it is read-only, out of memory
// or loading, does not permit what locks need, or has lost its data.
type objection struct {
	err    error     // nil if the node has lost its data
	taking bool      // it was asked for a lock, or its marker; locks that are held it may keep all the same
	until  time.Time // when it is over by itself, if that is known
}

// heed notes whether the node does what it is asked. An objection stays until the node does.
// That a node takes part is seen where it is asked for a lock, or for its marker, which it
// then writes again. So it is asked for its marker where it does something else.
func (n *node) heed(calls []call, results []driver.Result) {
	for i, c := range calls {
		if c.looks() {
			continue
		}
		marks := c.script == markScript
		taking, was := marks || c.takes(), n.objection.Load()
		switch now := objectionIn(results[i], taking); {
		case !marks && aboutKeys(results[i].Err): // of this lock, or of all
			n.mark(markerPause)
		case was != nil && was.taking && !taking:
			if results[i].Err == nil {
				n.mark(markerPause)
			}
		case now != nil:
			n.objection.Store(now)
		case was != nil && n.does(calls[i:], results[i:]):
			n.objection.Store(nil)
		}
	}
}

// objectionIn returns nil if the answer is no objection, or is about one lock only.
func objectionIn(r driver.Result, taking bool) *objection {
	if status, rest, _ := splitReply(r.Value); status == -5 && len(rest) == 2 {
		return &objection{taking: true, until: time.Now().Add(readNew(rest).left)}
	}
	_, foreign := foreignReply("", r.Err)
	if r.Err == nil || foreign || driver.OutcomeOf(r.Err) != driver.OutcomeReplied {
		return nil
	}
	return &objection{err: r.Err, taking: taking}
}

// does tells whether the node has done what the first of the calls asks; for a call for a
// lock, whether the node takes part, whoever has the lock.
func (n *node) does(calls []call, results []driver.Result) bool {
	r := results[0]
	switch status, _, ok := splitReply(r.Value); {
	case r.Err != nil:
		return false
	case calls[0].script == nil: // SET, and GET of the marker
		m := n.marker.Load()
		return m != nil && len(results) > 1 && results[1].Value == m.value
	case calls[0].script == takeScript: // which asks for the lock first, and then for the marker
		return status == 1
	case calls[0].takes():
		return ok && (status == 1 || status == 0)
	}
	return true
}

// takes reports whether the call asks for a lock.
func (c call) takes() bool {
	switch c.script {
	case nil:
		return c.command.Name() == "SET"
	case takeScript, mutexFamily.acquire, holdFamily.acquire:
		return true
	}
	return false
}

// looks reports whether the call changes nothing: a node that answers it may refuse all
// else.
func (c call) looks() bool {
	return c.script == inspectScript || c.script == nil && c.command.Name() != "SET"
}

// reason is why the node takes no part at present, nil if it does. It may be called on nil.
func (r *objection) reason() error {
	switch {
	case r == nil:
		return nil
	case r.until.IsZero():
		return r.err
	}
	if left := time.Until(r.until); left > 0 {
		return errNew{left: left}
	}
	return nil
}
