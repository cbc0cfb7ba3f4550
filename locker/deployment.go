package locker

import (
	"context"

	"github.com/golocker/golocker/locker/driver"
)

// A deployment is where a client keeps its locks: a [link] to one server, Sentinel
// master or Cluster, or a [quorum] of several that vote.
type deployment interface {
	// run executes one script, runBatch several together, in the order of calls.
	run(ctx context.Context, c call) (driver.Value, error)
	runBatch(ctx context.Context, calls []call) []driver.Result
	// shard is the part of the deployment where key is, from 0 to shards-1.
	shard(key string) int
	// sharded reports whether parts of the deployment may answer while others do not.
	sharded() bool
	// trusted is "1" where a script can tell by the count of PUBLISH that a waiter
	// does not hear it.
	trusted() string
	// contacted reports whether there was a reply at least once. Until then a failure
	// is more likely a wrong address than an outage.
	contacted() bool
	// links are the connections on which messages arrive.
	links() []*link
	close() error
}
