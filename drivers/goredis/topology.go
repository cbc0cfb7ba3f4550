package goredis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A topology has a ClusterClient ask which node serves which slots after a call was not answered:
// a replica may have taken the place of a master that is dead or hangs. go-redis asks by itself
// when a node redirects it, which such a master does not, and otherwise once a minute.
// Its own remedy is to send the command again, to another node, which is not allowed here.
type topology struct {
	cluster *redis.ClusterClient // nil if there is no Cluster

	mu      sync.Mutex
	asked   time.Time // last
	closed  bool
	running sync.WaitGroup
}

const (
	// askPause is the shortest time between two questions. A call that fails later asks again, and
	// until a replica is elected all of them fail.
	askPause = 500 * time.Millisecond

	// askTimeout bounds a question, since the node that is asked first may hang. Meanwhile another
	// call may have another node asked.
	askTimeout = 2 * time.Second
)

// ask returns at once. When life ends, so does what it has begun.
func (t *topology) ask(life context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cluster == nil || t.closed || life.Err() != nil || time.Since(t.asked) < askPause {
		return
	}
	t.asked = time.Now()
	t.running.Go(func() {
		ctx, cancel := context.WithTimeout(life, askTimeout)
		defer cancel()
		// To go through the masters go-redis first asks which they are. ReloadState would do that in a
		// goroutine of its own, which nothing ends, and one at a time: a node that
		// hangs would keep all others from being asked.
		_ = t.cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil })
	})
}

// close waits until no question is under way; life must have ended before. None is asked from then on.
func (t *topology) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
}
