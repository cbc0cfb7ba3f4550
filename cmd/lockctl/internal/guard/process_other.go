//go:build !linux

package guard

import "time"

// Guarded tells whether commands have a guardian on this system.
const Guarded = false

// Check returns nil: nothing is lacking.
func Check() error { return nil }

// Main does nothing where there are no guardians.
func Main() {}

// A Process is a command, and what is to be done about it in time.
type Process = lone

// A Moment is taken before a lease is asked for.
type Moment struct{}

// Now returns a Moment.
func Now() Moment { return Moment{} }

// Suspended tells whether the machine was suspended since m was taken, which is not
// known here.
func (Moment) Suspended() bool { return false }

// Start runs a command under a lease that lasts until deadline. Its events have to be
// received.
//
// A [*StartError] is why the command could not be started; it is [ErrTooLate] where too
// little is left of the lease.
func Start(c Command, t Times, _ Moment, deadline time.Time) (*Process, error) {
	return startLone(c, t, deadline)
}
