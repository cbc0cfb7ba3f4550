// Package soak makes runs out of rounds: it plans them by a seed such that every fault
// meets every driver on every kind of deployment, plays several at a time, and reports
// what came of them.
package soak
