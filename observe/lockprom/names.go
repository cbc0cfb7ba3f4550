package lockprom

import (
	"strings"
	"sync"
)

// An Option is a setting of [New].
type Option func(*Metrics)

// MaxNames is how many values the label lock has at most, the last of which is
// [OtherNames].
const MaxNames = 100

// OtherNames is the value of the label lock in the place of all further values, once there are
// [MaxNames].
const OtherNames = "_other"

// Names adds the label lock, with the value that label returns for a lock's name: for instance
// the part before a colon, where an id follows it. By default there is no such label, since
// there are often as many names as orders or customers, and names say who these are.
//
// The label has no more than [MaxNames] values: the first ones that come, and
// [OtherNames] for all others. label is called by many goroutines at once, and must not
// block; bytes that are not UTF-8 are replaced in what it returns.
func Names(label func(name string) string) Option {
	return func(m *Metrics) {
		if label == nil {
			panic("lockprom: New with Names(nil); leave it out for no names, or give it a function that returns a label")
		}
		m.names = &names{of: label, known: map[string]bool{}}
	}
}

// names keeps the values of the label few.
type names struct {
	of func(string) string

	mu    sync.RWMutex
	known map[string]bool
}

func (n *names) label(name string) string {
	label := strings.ToValidUTF8(n.of(name), "\uFFFD")
	n.mu.RLock()
	known, full := n.known[label], len(n.known) >= MaxNames-1
	n.mu.RUnlock()
	switch {
	case known:
		return label
	case full:
		return OtherNames
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known[label] && len(n.known) >= MaxNames-1 {
		return OtherNames
	}
	n.known[label] = true
	return label
}
