package locker

import "sync"

// diskless are the nodes of a quorum that keep nothing on a disk. That is no danger unless
// tokens are used: a client that takes a fenced lock is told of it, once.
type diskless struct {
	warn func(node int) // nil if nobody listens

	once   sync.Once
	mu     sync.Mutex
	fenced bool  // there was a fenced lock
	nodes  []int // of which nothing was told
}

// add is told of a node that keeps nothing.
func (d *diskless) add(node int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fenced {
		d.warn(node)
	} else {
		d.nodes = append(d.nodes, node)
	}
}

// lockFenced is told of each fenced lock.
func (d *diskless) lockFenced() { d.once.Do(d.warnOfAll) }

func (d *diskless) warnOfAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fenced = true
	for _, node := range d.nodes {
		d.warn(node)
	}
	d.nodes = nil
}
