package locker

import (
	"crypto/fips140"
	"crypto/sha1"
	"encoding/hex"
)

// sha1Hex is the servers' redis.sha1hex, by which they name scripts, and our scripts tell leases
// apart. Nothing is signed or encrypted by it, so it is available even where a program may have no
// cryptography but that of FIPS 140-3 (GODEBUG=fips140=only).
func sha1Hex(s string) string {
	var sum [sha1.Size]byte
	fips140.WithoutEnforcement(func() { sum = sha1.Sum([]byte(s)) })
	return hex.EncodeToString(sum[:])
}
