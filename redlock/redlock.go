// Package redlock keeps locks on a quorum of independent servers, so that the loss of
// a minority of them costs nothing.
//
//	client, err := redlock.Open("goredis", []string{
//		"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379",
//	})
//	client.Do(ctx, "orders:42", work) // a *locker.Client like any other
//
// A lock is held while a majority of the servers holds it. All kinds of lock and
// all options of package locker work; what differs:
//
//   - Nodes vote, in parallel. A call returns as soon as the outcome is certain; a node
//     that hangs is left behind, and asked only now and then until it answers again.
//   - There is no order of arrival. A waiting writer keeps new readers out; apart from
//     that waiters contend, and back off at random.
//   - With locker.Fenced the nodes agree on each token, so that a later grant has a larger one
//     whatever becomes of a minority of the nodes. Readers have no token.
//   - A node that has lost its data, or is new, takes no part in new locks until the longest
//     lease has run out ([Config].LongestTTL): it may have forgotten such a lease. Nodes that
//     are all new take no part either, unless Config.Bootstrap says that no lock was ever held
//     there.
//   - No TTL may exceed LongestTTL.
//   - The margin for clocks that drift is fixed, as on one server: a lease ends on the client
//     earlier than on the servers, by 1 % of its TTL, 2 ms and the larger of TTL/20 and 100 ms.
//     The 1 % is for clocks that run at different rates, and is far more than the clocks of any
//     working machines differ by; the 2 ms are for the rounding of the servers; the rest is for
//     timers that fire late where CPU is scarce. The margin is no option: too small a margin
//     would break exclusion without a word, and a clock for which this one does not suffice is
//     broken.
//
// The servers must be independent masters: an odd number from 3 to 15, none of them a
// replica of another, nor a Cluster.
//
// Source: S. Sanfilippo, "Distributed locks with Redis" (Redlock). For its criticism and what
// holds here, see docs/redlock.md.
package redlock

import (
	"fmt"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A Config is how the nodes are asked. It is one of the options of [New] and [Open].
type Config = locker.QuorumConfig

// New returns a client on the quorum of the given servers. Each connector comes from a
// driver's Wrap function or its OpenConnector; they may be of different drivers. The
// options are those of [locker.New], and [Config].
//
// It returns an error that is [locker.ErrInvalid] for an even number of servers, fewer than 3
// or more than 15. That two connectors lead to the same server shows at the first lock, as the
// same error: New does no I/O. (Where a server may neither be asked for its run id, by INFO,
// nor be written the key __golocker:n:<id>, it cannot be told from another one.)
func New(connectors []driver.Connector, opts ...locker.ClientOption) (*locker.Client, error) {
	return locker.NewQuorum(connectors, opts...)
}

// Open is New for servers that are given by their data source names, all through one
// driver, see [locker.Open].
func Open(driverName string, dsns []string, opts ...locker.ClientOption) (*locker.Client, error) {
	connectors := make([]driver.Connector, len(dsns))
	for i, dsn := range dsns {
		c, err := locker.OpenConnector(driverName, dsn)
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
		connectors[i] = c
	}
	return New(connectors, opts...)
}
