package redigo

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver/aside"
)

// connect takes a connection from the pool, in the caller's own goroutine where that ends with ctx:
// a turn through another one costs more than all else that is done here.
func (k *call) connect(ctx context.Context) (redis.Conn, error) {
	c := k.conn
	if c.prompt == always {
		return c.borrow(ctx)
	}
	if k.idle != nil {
		rc, err := c.borrow(k.idle)
		if err == nil || c.over(ctx) != nil {
			return rc, err
		}
	}
	borrow := func() (redis.Conn, error) {
		defer c.turns.Add(1)
		return c.borrow(ctx)
	}
	return aside.Open(ctx, c.life.Done(), borrow, func(late redis.Conn) { _ = late.Close() })
}

// A noDial is a ctx in which an idle connection can be had, but no time is left to make one.
type noDial struct {
	context.Context
	ended chan struct{} // when the call is cut
}

func (*noDial) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }
func (n *noDial) Done() <-chan struct{}     { return n.ended }

func (n *noDial) Err() error {
	select {
	case <-n.ended:
		return context.Canceled
	default:
		return nil
	}
}

// noDial returns one for the call. It serves no other one: an application's DialContext may
// succeed all the same, and what it makes may keep it, of which nothing tells. (That sees it end when
// a later call is cut.) Many are made at once because one costs as much as a good part of the call.
func (k *call) noDial() *noDial {
	if len(k.noDials) == 0 {
		k.noDials = make([]noDial, 32)
	}
	if k.ended == nil {
		k.ended = make(chan struct{})
	}
	its := &k.noDials[0]
	k.noDials = k.noDials[1:]
	its.Context, its.ended = k.ctx, k.ended
	return its
}
