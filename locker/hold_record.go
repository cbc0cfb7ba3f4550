package locker

import (
	"slices"
	"strconv"
	"strings"
)

// parseHold reads a hold of a lock with owners, as it stands in the record: "<mode>|
// <until>|<ttl>|<token>|<owner>|<label>|<metadata>", see docs/format.md. now is the
// server's time in ms.
func parseHold(text string, now int64) (Holder, bool) {
	fields := strings.SplitN(text, "|", 7)
	if len(fields) != 7 || len(fields[0]) != 1 {
		return Holder{}, false
	}
	until, err1 := strconv.ParseInt(fields[1], 10, 64)
	token, err2 := strconv.ParseUint(fields[3], 10, 64)
	if err1 != nil || err2 != nil {
		return Holder{}, false
	}
	return Holder{
		Mode: mode(fields[0][0]).public(), Holds: 1, Token: Token(token),
		Owner: fields[4], Label: fields[5], Metadata: fields[6],
		Remaining: inMillis(max(until, 0) - now),
	}, true
}

// parseHolds reads all fields of the record. Holds that have run out are left out;
// those of one owner, client, mode and metadata are one holder.
func parseHolds(fields []any, now int64) []Holder {
	var holders []Holder
	var leases [][]string // of each of them
next:
	for i := 0; i+1 < len(fields); i += 2 {
		id, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		if !isID(id) {
			continue
		}
		h, ok := parseHold(text, now)
		if !ok || h.Remaining <= 0 {
			continue
		}
		for j := range holders {
			if o := &holders[j]; o.Mode == h.Mode && o.Owner == h.Owner && o.Label == h.Label && o.Metadata == h.Metadata {
				o.Holds++
				o.Token, o.Remaining = max(o.Token, h.Token), max(o.Remaining, h.Remaining)
				leases[j] = append(leases[j], fingerprint(id))
				continue next
			}
		}
		holders, leases = append(holders, h), append(leases, []string{fingerprint(id)})
	}
	for i := range holders {
		slices.Sort(leases[i]) // the server gives them in no order, and equal holders are equal
		holders[i].leases = strings.Join(leases[i], " ")
	}
	return holders
}
