package locker

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// contendedFor is how long a lock counts as contended after this client has met another
// holder of it.
const contendedFor = time.Second

// A contention remembers for which locks this client had to wait lately. A call for one
// of them asks for a place in the queue at once: the SET that takes a free lock would
// be a request in vain.
//
// It is a hint, of fixed size and without locks: two locks may share a cell, and then a
// lock that a SET could have taken is taken by a script.
type contention struct {
	begun time.Time
	seed  maphash.Seed
	met   [256]atomic.Int64 // ns since begun, and 0 for never
}

func newContention() *contention { return &contention{begun: time.Now(), seed: maphash.MakeSeed()} }

func (c *contention) cell(record string) *atomic.Int64 {
	return &c.met[maphash.String(c.seed, record)%uint64(len(c.met))]
}

// meet notes that somebody else held the lock at that time.
func (c *contention) meet(record string, at time.Time) {
	c.cell(record).Store(max(1, int64(at.Sub(c.begun))))
}

// likely tells whether somebody else holds the lock, as far as can be guessed.
func (c *contention) likely(record string, at time.Time) bool {
	met := c.cell(record).Load()
	return met != 0 && at.Sub(c.begun)-time.Duration(met) < contendedFor
}
