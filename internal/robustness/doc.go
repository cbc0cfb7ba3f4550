// Package robustness has no code but tests: it breaks what locks stand on, on purpose, while
// worker processes use them, and has what they were told checked against the laws that
// the locks promise to keep. The README says how to run it for long.
package robustness
