package harness

import (
	"encoding/binary"
	"os"
	"sync/atomic"
)

// A Witness is what every holder of the one contended lock touches while it holds
// it. It finds overlaps in two ways: a holder finds another one's id where nobody
// should be or where its own should still be, and a counter that is read on entry and
// written on exit loses updates. It also carries the stamps by which hand-offs are
// measured.
//
// All of that is plain memory on a mapped page, as the data of an application
// would be: nothing but the lock keeps two holders apart. Being mapped, it can be
// shared between processes, and the race detector, which would end the test of a
// lock that locks nothing, does not look at it.
type Witness struct {
	page     []byte
	entries  atomic.Int64
	overlaps atomic.Int64
}

// Where things are on the page.
const (
	holderAt     = 8 * iota // id of who is inside, 0: nobody
	enteredAt               // acquisitions, counted under the lock only
	lastUnlockAt            // when the previous holder called unlock
	lastHolderAt            // its id
	witnessSize
)

// NewWitness returns a witness for the goroutines of this process. It is never
// unmapped, because a goroutine that is stuck in a lock may come back much later.
func NewWitness() (*Witness, error) { return newWitness(nil) }

// OpenWitness returns a witness that all processes share that open the same file.
// The counts of entries and overlaps are each process's own.
func OpenWitness(path string) (*Witness, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, err
	}
	return newWitness(f)
}

func newWitness(f *os.File) (*Witness, error) {
	page, err := mapShared(f, os.Getpagesize())
	if err != nil {
		return nil, err
	}
	return &Witness{page: page[:witnessSize]}, nil
}

func (w *Witness) load(at int) int64     { return int64(binary.NativeEndian.Uint64(w.page[at:])) }
func (w *Witness) store(at int, v int64) { binary.NativeEndian.PutUint64(w.page[at:], uint64(v)) }

// A Visit is one holder's time inside.
type Visit struct {
	Handoff int64 // how long ago the previous holder called unlock; 0: there was none
	Retaken bool  // the previous holder was the same one

	id, entered int64
}

// Enter is the first thing that a holder does, at now; id is its own and not 0.
//
// Enter and Exit are not inlined: the compiler must not conclude that what one has
// stored is still there in the other.
//
//go:noinline
func (w *Witness) Enter(id, now int64) Visit {
	if w.load(holderAt) != 0 {
		w.overlaps.Add(1)
	}
	w.store(holderAt, id)
	w.entries.Add(1)
	v := Visit{id: id, entered: w.load(enteredAt), Retaken: w.load(lastHolderAt) == id}
	if last := w.load(lastUnlockAt); last != 0 {
		v.Handoff = now - last
	}
	return v
}

// Exit is the last thing that a holder does before it calls unlock.
//
//go:noinline
func (w *Witness) Exit(v Visit) {
	if w.load(holderAt) != v.id {
		w.overlaps.Add(1)
	}
	w.store(enteredAt, v.entered+1)
	w.store(lastHolderAt, v.id)
	w.store(holderAt, 0)
	w.store(lastUnlockAt, Now())
}

// Entries is how many holders of this process have entered.
func (w *Witness) Entries() int64 { return w.entries.Load() }

// Overlaps is how often a holder of this process met another one.
func (w *Witness) Overlaps() int64 { return w.overlaps.Load() }

// Lost is how many updates of the plain counter were lost, when entries have been
// made in all. It is exact when nobody is inside.
func (w *Witness) Lost(entries int64) int64 { return entries - w.load(enteredAt) }
