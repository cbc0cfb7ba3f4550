package harness

import (
	"maps"
	"strings"
	"sync"
)

// Errors counts errors by their text. The zero value is ready for use.
type Errors struct {
	mu     sync.Mutex
	counts map[string]int
	n      int
}

// A library that fails may say something else each time; a report has no room for
// all of it.
const (
	maxTexts = 6
	maxText  = 160
)

// Add counts an error of the operation op.
func (e *Errors) Add(op string, err error) {
	text := strings.ReplaceAll(op+": "+err.Error(), "\n", "; ")
	if len(text) > maxText {
		text = text[:maxText] + "..."
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = map[string]int{}
	}
	if _, known := e.counts[text]; !known && len(e.counts) >= maxTexts {
		text = op + ": (other)"
	}
	e.counts[text]++
	e.n++
}

// Count is how many there were.
func (e *Errors) Count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}

// ByText is how many there were of each text.
func (e *Errors) ByText() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.counts)
}
