package goredis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A topology has a ClusterClient ask who serves which slots, when a call was not answered:
// a replica may have taken the place of a master that is dead or hangs. go-redis asks by itself
// when a node sends it elsewhere, which such a one does not, and otherwise once in a minute;
// its way out is to send the command again, to another node, which is refused it here.
type topology struct {
	cluster *redis.ClusterClient // nil if there is no Cluster

	mu      sync.Mutex
	asked   time.Time // last
	closed  bool
	running sync.WaitGroup
}

const (
	// askPause is between two times of asking. A call that fails later asks again, and until
	// a replica is elected all of them fail.
	askPause = 500 * time.Millisecond

	// askTimeout is for a node that hangs and is the first to be asked. Meanwhile another
	// call may have another one asked.
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
		// To go through the masters go-redis asks for them first. ReloadState would do it in a
		// goroutine of its own, which nothing ends, and one at a time: a node that
		// hangs would keep all others from being asked.
		_ = t.cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil })
	})
}

// close waits for those who ask, whose life has to have ended. Then nobody does any more.
func (t *topology) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
}
