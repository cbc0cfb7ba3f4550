package check

import (
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// Laws that no fault is allowed to break, beside those of package history.
const (
	// Linearizable: what the callers of one lock were told fits one order in which it
	// was taken and given up.
	Linearizable history.Law = "linearizable"
	// Honest: a lock that nobody has is not refused, and the release of a lost lease is
	// not called a success.
	Honest history.Law = "honest"
	// Active: the round did enough, and met enough faults, to prove something.
	Active history.Law = "active"
)

// An Effect is what a fault may do to the laws.
type Effect struct {
	// Breaks has the laws that it may break, and the documented condition under which
	// it does. A lock that need not exclude need not be linearizable, either.
	Breaks map[history.Law]string
	// Lingers is for how long it does so after it was healed, on top of the longest TTL.
	Lingers time.Duration
}
