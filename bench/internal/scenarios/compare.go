package scenarios

import (
	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/report"
)

// What contestants are compared with, for the ratio columns.

// SameClientFloor is the hand-written lock on the same client. There is none for a
// contestant on bare sockets, nor for a PING.
func SameClientFloor(c report.Cell) (report.Cell, bool) {
	s, err := contestants.ByName(c.Contestant)
	if err != nil || !s.Locks() {
		return c, false
	}
	c.Contestant = s.SameClientFloor()
	return c, c.Contestant != ""
}

// SameClientFailFast is redsync's quorum on the same client, with fail-fast.
func SameClientFailFast(c report.Cell) (report.Cell, bool) {
	s, err := contestants.ByName(c.Contestant)
	c.Contestant = s.SameClientFailFast()
	return c, err == nil && c.Contestant != ""
}

// Healthy is the same contestant while all servers are well. It is false for a cell
// that is about that itself.
func Healthy(c report.Cell) (report.Cell, bool) {
	fault, goroutines, ok := parseQuorumParams(c.Params)
	c.Params = quorumParams(noFault, goroutines)
	return c, ok && fault != noFault
}
