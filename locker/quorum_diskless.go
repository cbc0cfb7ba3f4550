package locker

import "sync"

// diskless are the nodes of a quorum that keep nothing on a disk. That is no danger unless
// tokens are used: who takes a fenced lock is told of it, once.
type diskless struct {
	warn func(node int) // nil if nobody listens

	once   sync.Once
	mu     sync.Mutex
	fenced bool  // there was a fenced lock
	nodes  []int // of which nothing was told
}

// meet is told of a node that keeps nothing.
func (f *diskless) meet(node int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fenced {
		f.warn(node)
	} else {
		f.nodes = append(f.nodes, node)
	}
}

// fence is told of each fenced lock.
func (f *diskless) fence() { f.once.Do(f.first) }

func (f *diskless) first() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fenced = true
	for _, node := range f.nodes {
		f.warn(node)
	}
	f.nodes = nil
}
