package locker

import (
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// Nearly all tries are first tries that find the lock free. Such a try needs no more than a
// fraction of what the script for all cases does. So the nodes that are asked first are led
// up to with less: with a script for this case alone if the lock is fenced, and else with the
// command that every SET NX lock uses. Where that does not suffice, the script for all cases
// is asked.
//
// The script finds out whether the node has kept its data. Without it, the marker is
// read behind the SET: as long as the marker is the one that a script has found to be
// old enough, it still is.

// errNotTold is the answer of a node that has done nothing, since it takes the script for
// all cases to tell what is to be done.
var errNotTold = driver.NotSent(errors.New("locker: the node was asked too little"))

func isNotTold(v vote) bool { return errors.Is(v.Err, errNotTold) }

// A marker is that by which a node was lately known to take part.
type marker struct {
	value string
	until time.Time // when it is to be looked at by a script again, which keeps it from running out
}

// learn notes the marker that a script has found to be old enough.
func (n *node) learn(value string) {
	n.marker.Store(&marker{value, time.Now().Add(n.quorum.cfg.LongestTTL)})
}

// lead returns the calls that a first try puts to the nodes that are asked first. That is
// the script for all cases where there is one of them that it has not lately found to take
// part: only this script begins the quarantine of a node that has lost its data.
func (q *quorum) lead(r *request, script call, offer []string) []call {
	now := time.Now()
	order := q.order(r.keys.record)
	for _, place := range order[:majority(len(q.nodes))] {
		if m := q.nodes[place].marker.Load(); m == nil || now.After(m.until) {
			return []call{script}
		}
	}
	if r.fenced {
		k := r.keys
		return []call{takeScript.call([]string{k.record, k.fence, k.over(r.id), markerKey},
			[]string{r.id, "|" + r.px + "|" + r.tail, r.px, keepFence(true, r.ttl)}, offer...)}
	}
	return []call{
		native("SET", r.keys.record, record(r.id, r.px, r.tail), "NX", "PX", r.px),
		native("GET", markerKey),
	}
}

// reader returns what reads the answers of a node to calls that take the lock, and notes in
// taken where it was given although that is no vote.
func (q *quorum) reader(r *request, taken *taken) func(node int, answers []driver.Result) (Token, error) {
	var known [maxNodes]*marker // before anything is sent: one that is learned later tells nothing of a SET
	for i, n := range q.nodes {
		known[i] = n.marker.Load()
	}
	return func(node int, answers []driver.Result) (Token, error) {
		n := q.nodes[node]
		if len(answers) == 2 {
			given, err := n.set(r, known[node], answers)
			if given {
				taken.given(node)
			}
			return 0, err
		}
		token, _, err := r.acquired(answers[0].Value)
		if errors.Is(err, errNotTold) {
			n.marker.Store(nil)
		}
		if _, rest, _ := splitReply(answers[0].Value); err == nil && len(rest) == 2 {
			if value, ok := rest[1].(string); ok {
				n.learn(value)
			}
		}
		return token, err
	}
}

// set reads what a node has answered to SET and GET, where m was its marker. given tells whether it has given the
// lock, which it may have although it takes no part.
func (n *node) set(r *request, m *marker, answers []driver.Result) (given bool, err error) {
	set, found := answers[0], answers[1]
	_, foreign := foreignReply(r.name, found.Err) // which is no marker
	switch {
	case set.Value == nil:
		return false, &LockedError{Name: r.name}
	case set.Value != "OK":
		return false, oddReply("SET", set.Value)
	case unreached(found): // SET was sent all the same
		return true, fmt.Errorf("locker: the node was not asked for its marker: %s", bare(found.Err))
	case found.Err != nil && !foreign:
		return true, found.Err
	case m == nil || found.Value != m.value:
		n.marker.CompareAndSwap(m, nil)
		return true, errNew{}
	}
	return true, nil
}
