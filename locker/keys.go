package locker

import (
	"strconv"
	"strings"
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

// sidePrefix starts every key and channel of ours that is not a record. No lock
// may be named so; therefore no name can collide with them.
const sidePrefix = "__golocker:"

// markerKey tells that a node of a quorum has kept its data.
const markerKey = sidePrefix + "n"

// labelPrefix begins the key by which a client tells nodes of a quorum apart.
const labelPrefix = markerKey + ":"

// maxName bounds a lock's name with its prefix, in bytes.
const maxName = 1024

// keys are the server's keys of one lock. All of them share the record's slot.
type keys struct {
	record  string // the (prefixed) name itself
	fence   string // the last fencing token
	queue   string // reservations of waiters, in order of arrival
	entries string // reservation → entry
	void    string // begins the keys of ids that are over
}

func newKeys(record string) keys {
	// One string for all, since most locks are taken anew each time.
	tag := slotTag(record)
	n := len(sidePrefix) + len("f:{}:") + len(tag) + len(record)
	var b strings.Builder
	b.Grow(4 * n)
	writeSide(&b, "f:{", tag, record)
	writeSide(&b, "q:{", tag, record)
	writeSide(&b, "w:{", tag, record)
	writeSide(&b, "v:{", tag, record)
	all := b.String()
	return keys{record: record, fence: all[:n], queue: all[n : 2*n], entries: all[2*n : 3*n], void: all[3*n:]}
}

func writeSide(b *strings.Builder, kind, tag, record string) {
	b.WriteString(sidePrefix)
	b.WriteString(kind)
	b.WriteString(tag)
	b.WriteString("}:")
	b.WriteString(record)
}

// over is the key that stands while an id is remembered as over.
func (k *keys) over(id string) string { return k.void + ":" + id }

// all returns them, for an id, in the order in which the scripts that need all expect
// them. The last is there only if the id is to be remembered, or looked up.
func (k *keys) all(id string, over bool) []string {
	keys := append(make([]string, 0, 6), k.record, k.fence, k.queue, k.entries) // with room for the marker
	if over {
		keys = append(keys, k.over(id))
	}
	return keys
}

// slotTag returns a hash tag that leads to key's own slot. That is the tag that
// key has, or the whole key. A key that has none but holds a brace which would
// end the tag too early gets a short tag that hashes to the same slot.
func slotTag(key string) string {
	tag := key
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if n := strings.IndexByte(key[i+1:], '}'); n > 0 {
			tag = key[i+1 : i+1+n]
		}
	}
	if tag != "" && !strings.Contains(tag, "}") {
		return tag
	}
	return slotTags()[driver.Slot(key)]
}

// slotTags holds for each slot the decimal number, counted from 0, that hashes
// to it first. The numbers are part of the stored format.
var slotTags = sync.OnceValue(func() *[driver.Slots]string {
	var tags [driver.Slots]string
	for n, missing := 0, driver.Slots; missing > 0; n++ {
		tag := strconv.Itoa(n)
		if slot := driver.Slot(tag); tags[slot] == "" {
			tags[slot] = tag
			missing--
		}
	}
	return &tags
})

// checkName returns why a record key cannot be used, or nil.
func checkName(record string) error {
	switch {
	case record == "":
		return invalid("the lock's name is empty; give it one")
	case len(record) > maxName:
		return invalid("the lock's name has " + strconv.Itoa(len(record)) + " bytes with its prefix; the limit is " + strconv.Itoa(maxName))
	case strings.HasPrefix(record, sidePrefix):
		return invalid("the lock's name begins with " + sidePrefix + ", which is reserved; choose another name or prefix")
	}
	return nil
}
