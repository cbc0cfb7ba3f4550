package locker

import (
	"strconv"
	"strings"
	"time"
)

// recordPrefix begins the record of a mutex; the scripts know it too. A record
// is "gl1|m|<id>|<token>|<ttl in ms>|<label>|<metadata>", see docs/format.md.
const recordPrefix = "gl1|m|"

// idLength is the length of a lease id: 128 random bits in hex.
const idLength = 32

// record makes the value that SET NX writes; px is the TTL in ms. The acquire script
// makes the same for a fenced mutex.
func record(id, px, tail string) string {
	return recordPrefix + id + "|0|" + px + "|" + tail
}

// recordID tells records apart: by the id of the lease, however the rest differs between
// the nodes of a quorum.
func recordID(value string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(value, recordPrefix), "|")
	return id
}

// A Holder describes who holds a lock, as far as the server knows.
type Holder struct {
	// Mode is how the lock is held.
	Mode Mode
	// Owner is the name of the [Owner], "" for a plain mutex.
	Owner string
	// Holds is how many holds the owner has on the server in this mode, with this label and
	// metadata. Leases that one client made without asking the server share a hold.
	Holds int
	// Label is the label of the holder's client, see [Label].
	Label string
	// Metadata is what the holder said with [Metadata].
	Metadata string
	// Token is the fencing token of the lease, 0 if it has none. Where a client passes the lock
	// on among its goroutines it is that of the first of them. On a quorum it is the number
	// that one of the nodes has drawn for the lease; the lease's token may differ from it, in
	// both directions, where the nodes did not draw the same.
	Token Token
	// Remaining is how long the lease lasts on the server unless it is renewed, 0 if that is
	// not known. A holder that has crashed is gone then. One that is at work may be done sooner
	// or later than that: for it, Remaining is no bound.
	Remaining time.Duration
	// Foreign tells that the lock was taken by something other than this library, through a
	// plain SET NX for instance. Then only Remaining is known besides.
	Foreign bool

	leases string // fingerprints of their ids, by which they are told from later ones
}

// fingerprintLength is that of a fingerprint: 64 bits in hex, by which the leases of one lock are
// not mistaken for each other.
const fingerprintLength = 16

// fingerprint tells a lease from others, and is of no use to whoever gets to see it: by the id
// itself, which a Holder would show to anybody who prints it, the lease could be taken up. The
// scripts make the same fingerprints.
func fingerprint(id string) string { return sha1Hex(id)[:fingerprintLength] }

// parseRecord reads what stands at a lock's key. What is not a record that this
// version wrote is foreign.
func parseRecord(value string, remaining time.Duration) Holder {
	h := Holder{Mode: Exclusive, Holds: 1, Remaining: max(remaining, 0), Foreign: true}
	rest, ok := strings.CutPrefix(value, recordPrefix)
	if !ok {
		return h
	}
	fields := strings.SplitN(rest, "|", 5)
	if len(fields) != 5 || len(fields[0]) != idLength {
		return h
	}
	token, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return h
	}
	h.Foreign, h.leases = false, fingerprint(fields[0])
	h.Token, h.Label, h.Metadata = Token(token), fields[3], fields[4]
	return h
}
