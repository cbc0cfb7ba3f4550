package locker

import (
	"crypto/rand"
	"encoding/hex"
)

// newID returns 128 random bits: the id of a lease, a reservation or a client.
func newID() string {
	var b [idLength / 2]byte
	rand.Read(b[:])
	var text [idLength]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

// isID tells whether text has the form of an id, and so is safe in a record.
func isID(text string) bool {
	if len(text) != idLength {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
