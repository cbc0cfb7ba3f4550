package locker

import "strconv"

// A Token is a fencing token: each later grant of a lock has a larger one. Send it along with
// every write to the guarded resource, and with every read of what is to be written back, and
// let the resource refuse a token smaller than the largest it has seen; then a holder that was
// paused past its lease can do no harm. The zero Token means that the lock has none.
//
// On one deployment a token is the larger of the last token + 1 and the server's time in
// microseconds. The last token is kept for a day (or two TTLs) after the release; after that,
// and after a loss of the data, order rests on the server's clock not standing behind the last
// token, which may be 2 ms ahead of that clock where a client passes the lock on among its
// goroutines. Tokens stay below 2^53, exact in any language.
//
// Source: M. Kleppmann, "How to do distributed locking", 2016.
type Token uint64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }
