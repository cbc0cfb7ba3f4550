package locker

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

// What an administrator asks of a quorum is asked of all nodes. The holds that a majority
// knows are those of the lock; others are leftovers. A node that was not heard, or is so new
// that it may have forgotten a lease, counts among those that know a hold: that a lock is
// free is not said unless it is known.

// inspectVerdict makes one reply out of the replies to inspect.
var inspectVerdict = knownVerdict(isLook, func(answers []answer, q quota) (driver.Value, bool) {
	var known []nodeHold
	foreign := map[string][]nodeHold{}
	waiters := int64(0)
	for _, a := range answers {
		list, _ := a.Value.([]any)
		n, _ := list[4].(int64)
		waiters = max(waiters, n)
		holds := nodeHolds(a, list[1], list[2], list[3])
		text, isText := list[1].(string)
		switch kind, _ := list[0].(string); {
		case kind == "none":
		case isText && (kind != "string" || parseRecord(text, 0).Foreign):
			foreign[kind] = append(foreign[kind], holds...)
		default:
			known = append(known, holds...)
		}
	}
	switch record, left := common(known, q); record.(type) {
	case string:
		return []any{"string", record, left, "0", waiters}, true
	case []any:
		return []any{"hash", record, left, "0", waiters}, true
	}
	kinds := slices.SortedFunc(maps.Keys(foreign), func(a, b string) int {
		return cmp.Or(len(foreign[b])-len(foreign[a]), strings.Compare(a, b))
	})
	for _, kind := range kinds {
		if value, left := common(foreign[kind], q); value != nil {
			return []any{kind, value, left, "0", waiters}, false
		}
	}
	return []any{"none", nil, int64(-2), "0", waiters}, false
})

// breakVerdict makes one reply out of the replies to break. That a lease was ended is told
// wherever it was: a caller that has looked knows that a majority had it, or wants to be rid of
// it at a minority.
var breakVerdict = knownVerdict(isBreak, func(answers []answer, q quota) (driver.Value, bool) {
	var ended, others []nodeHold
	var foreign driver.Value
	foreigners := 0 // that have forgotten nothing
	for _, a := range answers {
		status, rest, _ := splitReply(a.Value)
		switch status {
		case -2:
			if foreign == nil {
				foreign = a.Value
			}
			if a.young == 0 {
				foreigners++
			}
		case 1:
			ended = append(ended, nodeHolds(a, rest[0], rest[1], rest[2])...)
		case -1:
			others = append(others, nodeHolds(a, rest[0], rest[1], rest[2])...)
		}
	}
	if record, left := common(ended, quota{least: 0, most: q.most}); record != nil {
		return []any{int64(1), record, left, "0"}, true
	}
	if record, left := common(others, q); record != nil {
		return []any{int64(-1), record, left, "0"}, true
	}
	if foreign != nil && foreigners >= q.least {
		return foreign, false
	}
	return []any{int64(0)}, false
})

// isLook and isBreak report whether a node's answer has the form of one to inspect, or to
// break.
func isLook(v driver.Value) bool {
	list, ok := v.([]any)
	return ok && len(list) == 5
}

func isBreak(v driver.Value) bool {
	status, rest, ok := splitReply(v)
	return ok && (status == 0 || status == -2 || (status == 1 || status == -1) && len(rest) == 3)
}

// A nodeHold is a hold as one node knows it.
type nodeHold struct {
	id   string
	text string
	left int64 // ms
	own  bool  // in a record of its own, as a mutex
	old  bool  // the node has forgotten nothing
}

// nodeHolds reads a record as the inspect and break scripts give it.
func nodeHolds(by answer, record, left, now any) []nodeHold {
	switch record := record.(type) {
	case string:
		ms, _ := left.(int64)
		id := record // a foreign value
		if rest, ok := strings.CutPrefix(record, recordPrefix); ok && len(rest) >= idLength {
			id = rest[:idLength]
		}
		return []nodeHold{{id: id, text: record, left: ms, own: true, old: by.young == 0}}
	case []any:
		text, _ := now.(string)
		at, _ := strconv.ParseInt(text, 10, 64)
		var holds []nodeHold
		for i := 0; i+1 < len(record); i += 2 {
			id, _ := record[i].(string)
			text, _ := record[i+1].(string)
			fields := strings.SplitN(text, "|", 3)
			if !isID(id) || len(fields) != 3 {
				continue
			}
			until, _ := strconv.ParseInt(fields[1], 10, 64)
			if left := until - at; left > 0 {
				// As on a node whose clock stands at 0.
				text = fields[0] + "|" + strconv.FormatInt(left, 10) + "|" + fields[2]
				holds = append(holds, nodeHold{id: id, text: text, left: left, old: by.young == 0})
			}
		}
		return holds
	}
	return nil
}

// common makes a record of the holds that as many nodes know as q says, and returns for
// how long they still will. The record is nil if there are none.
func common(known []nodeHold, q quota) (record driver.Value, left int64) {
	var order []string
	byID := map[string][]nodeHold{}
	for _, h := range known {
		if byID[h.id] == nil {
			order = append(order, h.id)
		}
		byID[h.id] = append(byID[h.id], h)
	}
	// Of several mutexes, which there may be where nodes do not say what they have, the one of
	// most nodes comes first.
	slices.SortStableFunc(order, func(a, b string) int {
		return cmp.Or(len(byID[b])-len(byID[a]), old(byID[b])-old(byID[a]))
	})
	var fields []any
	for _, id := range order {
		holds := byID[id]
		if old(holds) < q.least {
			continue
		}
		slices.SortFunc(holds, func(a, b nodeHold) int { return cmp.Compare(b.left, a.left) })
		h := holds[min(len(holds), q.most)-1]
		if h.own {
			return h.text, h.left
		}
		fields = append(fields, h.id, h.text)
		left = max(left, h.left)
	}
	if fields == nil {
		return nil, -2
	}
	return fields, left
}

// old is how many of the nodes that know a hold have forgotten nothing.
func old(holds []nodeHold) int {
	n := 0
	for _, h := range holds {
		if h.old {
			n++
		}
	}
	return n
}
