// Package starvation has no code but a test: it takes many leases away at once, by a line
// that falls silent or a server that stops, while other processes want all of the
// processors, and holds the ends of their contexts to the promise that they come in time
// and before anybody else has the lock.
//
// By default a few hundred leases are lost; "make starvation" loses the 10 000 of the
// project's bar.
package starvation
