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
	// Reading: a reader has the token of the last writer. It holds where exclusion does: a
	// server that has lost what was written last cannot know that writer.
	Reading history.Law = "reader's token"
	// Active: the round did enough, and met enough faults, to prove something.
	Active history.Law = "active"
)
