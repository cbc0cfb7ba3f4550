// Package starvation has no code but a test: it takes many leases away at once, by a line
// that falls silent or a server that stops, while other processes want all of the
// processors, and holds the ends of their contexts to the promise that they come in time
// and before anybody else has the lock.
//
// By default a few hundred leases are lost. All of the project's bar is
//
//	go test -run TestLostLeases -v . -args -leases=10000
package starvation
