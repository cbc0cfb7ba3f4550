package redigo

import (
	"context"
	"time"

	"github.com/golocker/golocker/locker/driver/aside"
)

// runHere makes the call without the detour by another goroutine, which costs more than
// all else that is done here. It returns false if there is no connection for that, and time
// to have one otherwise.
func (k *call) runHere() bool {
	borrowing := k.ctx
	if k.conn.prompt == whenIdle {
		borrowing = k.noDial()
	}
	k.conn.underway.enter(k)
	defer k.conn.underway.leave(k)
	stop := aside.OnEnd(k.ctx, k.cutOff)
	defer func() { k.known = !stop() || k.known }() // else cutOff may be on its way
	if k.unsent = k.conn.over(k.ctx); k.unsent != nil {
		return true
	}
	rc, err := k.conn.borrow(borrowing)
	switch {
	case err != nil && k.conn.prompt == always:
		k.unsent = k.conn.unconnected(k.ctx, err)
		return true
	case err != nil:
		k.unsent = k.conn.over(k.ctx)
		return k.unsent != nil
	}
	k.use(rc)
	return true
}

// A noDial is a ctx in which an idle connection can be had, but no time is left to make one.
type noDial struct {
	context.Context
	ended chan struct{} // when the call is broken
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
// a later call is broken.) Many are made at once because one costs as much as a good part of the call.
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
