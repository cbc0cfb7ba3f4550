package locker

import (
	"context"
	"errors"
	"slices"

	"github.com/golocker/golocker/locker/driver"
)

// A bundle is several calls of one script, each about another lock, that are made as
// one: the script does for each what it would do for it alone, and answers each. That
// costs client and server a fraction of a pipeline of single calls.
//
// Calls can share a bundle if they differ in their keys and first argument only. How
// many may do so is up to the script: the server does nothing else meanwhile.
type bundle struct {
	first  call
	places []int    // of its calls among those that were given
	keys   []string // of all of them, once there are two
	ids    []string // their first arguments
}

// bundles puts calls into as few bundles as possible, each in the order of its first
// call.
func bundles(calls []call) []bundle {
	var all []bundle
	for i, c := range calls {
		if b := open(all, c); b != nil {
			b.add(c, i)
		} else {
			all = append(all, bundle{first: c, places: []int{i}})
		}
	}
	return all
}

// open returns the bundle that c can join, or nil.
func open(all []bundle, c call) *bundle {
	if c.script == nil || c.script.most < 2 {
		return nil
	}
	for i := range slices.Backward(all) {
		if b := &all[i]; b.takes(c) {
			return b
		}
	}
	return nil
}

func (b *bundle) takes(c call) bool {
	return b.first.script == c.script && len(b.places) < c.script.most &&
		len(b.first.keys()) == len(c.keys()) && slices.Equal(b.first.args()[1:], c.args()[1:])
}

// add needs b.takes(c).
func (b *bundle) add(c call, place int) {
	if len(b.places) == 1 {
		most := c.script.most
		b.keys = append(make([]string, 0, most*len(c.keys())), b.first.keys()...)
		b.ids = append(make([]string, 0, most), b.first.args()[0])
		b.places = append(make([]int, 0, most), b.places...)
	}
	b.keys = append(b.keys, c.keys()...)
	b.ids = append(b.ids, c.args()[0])
	b.places = append(b.places, place)
}

// call returns the one call that stands for all.
func (b *bundle) call() call {
	if len(b.places) == 1 {
		return b.first
	}
	return b.first.script.call(b.keys, b.ids, b.first.args()[1:]...)
}

// share gives each call of the bundle its part of the reply.
func (b *bundle) share(r driver.Result, results []driver.Result) {
	list, ok := r.Value.([]any)
	for i, place := range b.places {
		switch {
		case len(b.places) == 1 || r.Err != nil:
			results[place] = r
		case !ok || len(list) != len(b.places):
			results[place].Err = oddReply("a bundle", r.Value)
		default:
			results[place] = partOf(list[i])
		}
	}
}

// partOf reads what the script says about one of several. An error is a string there.
func partOf(v driver.Value) driver.Result {
	if text, ok := v.(string); ok {
		return driver.Result{Err: driver.NewServerError(text)}
	}
	return driver.Result{Value: v}
}

// runBatch executes scripts together. Results are in the order of calls.
func (l *link) runBatch(ctx context.Context, calls []call) []driver.Result {
	if len(calls) < 2 || !l.together() {
		return l.runCommands(ctx, calls, commands(calls))
	}
	all := bundles(calls)
	joint := make([]call, len(all))
	for i := range all {
		joint[i] = all[i].call()
	}
	results := make([]driver.Result, len(calls))
	var alone []int // those to be made singly
	for i, r := range l.runCommands(ctx, joint, commands(joint)) {
		b := &all[i]
		if len(b.places) > 1 && l.refused(r.Err) {
			alone = append(alone, b.places...)
			continue
		}
		b.share(r, results)
		alone = b.doubtful(alone, results)
	}
	if len(alone) == 0 {
		return results
	}
	single := make([]call, len(alone))
	for i, place := range alone {
		single[i] = calls[place]
	}
	for i, r := range l.runCommands(ctx, single, commands(single)) {
		switch gone := results[alone[i]].Value != nil; {
		case gone && r.Err != nil:
			continue // a lease that might not be held is not held
		case gone && held(r):
			l.noBundles.Store(true)
		}
		results[alone[i]] = r
	}
	return results
}

// doubtful appends the places of the calls whose lease is gone, according to the bundle's reply. A
// proxy that keeps locks on several servers, and does not say so, sends all of a bundle to the
// server of the first lock.
func (b *bundle) doubtful(alone []int, results []driver.Result) []int {
	for _, place := range b.places {
		if r := results[place]; len(b.places) > 1 && r.Err == nil && !held(r) {
			alone = append(alone, place)
		}
	}
	return alone
}

// held reports whether a call that may be bundled has found its lease.
func held(r driver.Result) bool { return r.Err == nil && r.Value == int64(1) }

// together tells whether calls about several locks can be made as one. In a Cluster
// they lie in different slots, and on different nodes.
func (l *link) together() bool {
	return l.described.Load() && !l.cluster.Load() && !l.noBundles.Load()
}

// refused reports whether the server has refused a bundle for a reason that may not hold
// for each of its calls: one lock may be forbidden where others are not, or a proxy may
// keep slots on several servers and not say so.
func (l *link) refused(err error) bool {
	reply, ok := errors.AsType[*driver.ServerError](err)
	if !ok || transient(err) {
		return false
	}
	if reply.Code == "CROSSSLOT" {
		l.noBundles.Store(true)
	}
	return true
}
