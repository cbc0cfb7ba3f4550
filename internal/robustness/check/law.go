package check

import "github.com/golocker/golocker/internal/robustness/history"

// Laws that are checked beside those of package history.
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
