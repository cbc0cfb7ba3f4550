package locker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A Found is a lock that [Client.List] has come upon.
type Found struct {
	Name string // as given to [Client.Mutex]: without the client's Prefix
	Status
}

// listBatch is how many locks are inspected together.
const listBatch = 64

// List goes through the locks that somebody holds and whose names begin with prefix, in no
// order: those of all masters of a Cluster, and on a quorum those that a majority holds. It is
// meant for people who look at locks, and is no part of taking one: it walks through all keys
// of the servers by SCAN, in small steps.
//
// A lock that is held all the time until the iteration ends is found once, except that a
// Cluster which moves slots meanwhile may hide some. A lock that is taken or given up
// meanwhile may be found or not; its Status is that of one moment.
//
// What looks like a lock of something other than this library, which is any string that
// expires, is included; its Holder is Foreign. Other keys are left out, and so are those whose
// names the server does not let the user look at.
//
// An error ends the iteration: ErrUnavailable, ErrClosed, ErrInvalid for nodes that make no
// quorum, the end of ctx, or a [*driver.ServerError] where a command is forbidden, which is
// [ErrPermission] if an ACL forbids it. On a quorum a minority of the nodes may fail, or be
// new. Where a majority of them has lost its data less than LongestTTL ago, the iteration ends
// with ErrUnavailable when it has gone through all that the nodes know. The error that ends it
// for want of nodes is a [*QuorumError].
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		l := listing{client: c, pattern: globQuote(c.cfg.prefix+prefix) + "*", seen: map[string]bool{}, yield: yield}
		links := c.deployment.links()
		var reasons, young []error
		votes := make(ballot, len(links))
		for i := range votes {
			votes[i] = vote{in: true, Result: oneUnasked[0]}
		}
		for i, link := range links {
			err := l.walk(ctx, link)
			if l.stopped {
				return
			}
			votes[i].Result = driver.Result{Value: int64(1), Err: err}
			if _, isNew := errors.AsType[errNew](err); isNew {
				young = append(young, err)
			} else if err != nil {
				reasons = append(reasons, err)
			}
			if len(links)-len(reasons) < majority(len(links)) {
				break
			}
		}
		if fault := c.quorum.fault(); fault != nil {
			yield(Found{}, failed("list", fault))
			return
		}
		if c.quorum != nil && c.quorum.cfg.Bootstrap && len(young) == len(links) {
			young = nil
		}
		// Each majority has a node in common with those that hold a lock.
		if reasons = append(reasons, young...); len(links)-len(reasons) < majority(len(links)) {
			if c.quorum != nil && ctx.Err() == nil && c.ctx.Err() == nil {
				reasons = []error{listFailure(votes)}
			}
			yield(Found{}, failed("list", reasons...))
		}
	}
}

// listFailure tells how the walk has ended at each node of a quorum, or, where it ended over what
// all nodes were asked together, how they have voted.
func listFailure(votes ballot) error {
	for _, v := range votes {
		if vote, ok := errors.AsType[*QuorumError](v.Err); ok {
			return vote
		}
	}
	return votes.failure()
}

// A listing is one walk through the keys of a deployment.
type listing struct {
	client  *Client
	pattern string
	seen    map[string]bool // names that were yielded; SCAN may repeat itself
	yield   func(Found, error) bool
	stopped bool
}

// walk lists the locks of all masters behind one link.
func (l *listing) walk(ctx context.Context, link *link) error {
	masters, err := l.masters(ctx, link)
	for _, key := range masters {
		for cursor := "0"; err == nil && !l.stopped; {
			var names []string
			if cursor, names, err = l.page(ctx, link, key, cursor); err != nil {
				break
			}
			for some := range slices.Chunk(names, listBatch) {
				if err = l.show(ctx, some); err != nil || l.stopped {
					break
				}
			}
			if cursor == "0" {
				break
			}
		}
	}
	if err == nil && !l.stopped && l.client.quorum != nil {
		err = l.forgotten(ctx, link)
	}
	return err
}

// forgotten returns an errNew if the node of a quorum may have forgotten a lock.
func (l *listing) forgotten(ctx context.Context, link *link) error {
	// An ACL that allows locks to be taken allows these keys to be named. There is no lock at
	// any of them.
	c := l.client.lookCall(inspectScript, []string{sidePrefix + "l", sidePrefix + "l"})
	return l.ask(ctx, func(ctx context.Context) error {
		v, err := link.run(ctx, c)
		if a := readAnswer(v); err == nil && a.young != 0 {
			l.client.quorum.missAt(link, a)
			return fmt.Errorf("%w: %w", ErrUnavailable, errNew{left: a.young})
		}
		return err
	})
}

// ask makes one request of the walk to one link. A node of a quorum is waited for as it is by
// other calls, so that one that hangs does not use up the time of the others.
func (l *listing) ask(ctx context.Context, send func(ctx context.Context) error) error {
	within := l.client.cfg.lock.attemptTimeout
	if q := l.client.quorum; q != nil {
		within = min(within, q.cfg.NodeTimeout)
	}
	return l.request(ctx, within, send)
}

// request makes one request of the walk, bounded in time as other requests are.
func (l *listing) request(ctx context.Context, within time.Duration, send func(ctx context.Context) error) error {
	if err := l.client.enter(); err != nil {
		return err
	}
	defer l.client.leave()
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := send(bounded)
	if fault := l.client.quorum.fault(); fault != nil {
		return fault // It may have shown that the nodes make no quorum.
	}
	if err != nil && ctx.Err() != nil {
		return cutOff(ctx, err)
	}
	return requestError("", late(err))
}

// cutOff is the error of a request that has failed as ctx has ended.
func cutOff(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	return &failedError{text: bare(cause) + ": " + bare(err), reasons: []error{cause, err}}
}

// masters returns a key for each master, by which a command that is meant for that
// master finds its way there, or one empty key where there is only one master.
func (l *listing) masters(ctx context.Context, link *link) ([]string, error) {
	var slots driver.Value
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		conn, err := link.get(ctx)
		if err == nil && l.client.quorum != nil {
			err = l.client.quorum.identify(ctx, link, conn)
		}
		if err != nil {
			return err
		}
		if link.described.Load() && !link.cluster.Load() {
			return nil
		}
		slots, err = link.doAlone(ctx, driver.Command{Args: []string{"CLUSTER", "SLOTS"}})
		if driver.OutcomeOf(err) == driver.OutcomeReplied && err != nil && !link.cluster.Load() {
			err = nil // the driver does not tell what it is; the server is no Cluster
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if slots == nil {
		return []string{""}, nil
	}
	return masterKeys(slots)
}

// masterKeys reads the reply to CLUSTER SLOTS.
func masterKeys(slots driver.Value) ([]string, error) {
	ranges, _ := slots.([]any)
	known := map[string]bool{}
	var keys []string
	for _, r := range ranges {
		// First slot, last slot, master, replicas…; a node is its host, port, id….
		fields, _ := r.([]any)
		if len(fields) < 3 {
			return nil, oddReply("list", slots)
		}
		first, ok1 := fields[0].(int64)
		last, ok2 := fields[1].(int64)
		if !ok1 || !ok2 || first < 0 || last < first || last >= driver.Slots {
			return nil, oddReply("list", slots)
		}
		if master := fmt.Sprint(fields[2]); !known[master] {
			known[master] = true
			// A key that does not exist leads to the other master where its slot is on its way
			// there, as the first or last slot of a range is while the range is being moved. An ACL
			// that allows locks to be taken allows the key to be named.
			keys = append(keys, sidePrefix+"s:{"+slotTags()[(first+last)/2]+"}")
		}
	}
	if keys == nil {
		return nil, fmt.Errorf("%w: no master of the Cluster has any slots", ErrUnavailable)
	}
	return keys, nil
}

// page makes one step of SCAN, and returns the names of what may be locks.
func (l *listing) page(ctx context.Context, link *link, key, cursor string) (next string, names []string, err error) {
	const count = "1000"
	var v driver.Value
	err = l.ask(ctx, func(ctx context.Context) (err error) {
		if key == "" {
			v, err = link.doAlone(ctx, driver.Command{Args: []string{"SCAN", cursor, "MATCH", l.pattern, "COUNT", count}})
		} else {
			v, err = link.run(ctx, scanScript.call([]string{key}, []string{cursor, l.pattern, count}))
		}
		return err
	})
	if refused, ok := errors.AsType[*PermissionError](err); ok && refused.Grant == allRules {
		refused.Grant = "+scan" // which the server has not named: the script runs nothing else
	}
	if err != nil {
		return "", nil, err
	}
	reply, _ := v.([]any)
	if len(reply) != 2 {
		return "", nil, oddReply("list", v)
	}
	next, ok := reply[0].(string)
	list, isList := reply[1].([]any)
	if !ok || !isList {
		return "", nil, oddReply("list", v)
	}
	for _, item := range list {
		key, _ := item.(string)
		name := strings.TrimPrefix(key, l.client.cfg.prefix)
		if checkName(key) == nil && !l.seen[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return next, slices.Compact(names), nil
}

// show yields those of the names that are locks.
func (l *listing) show(ctx context.Context, names []string) error {
	calls := make([]call, len(names))
	for i, name := range names {
		keys := newKeys(l.client.cfg.prefix + name)
		calls[i] = l.client.inspectCall(&keys)
	}
	var results []driver.Result
	err := l.request(ctx, l.client.cfg.lock.attemptTimeout, func(ctx context.Context) error {
		results = l.client.deployment.runBatch(ctx, calls)
		return nil
	})
	if err != nil {
		return err
	}
	for i, r := range results {
		if aboutKeys(r.Err) {
			continue // A command that the user must not run would hide all locks.
		}
		if _, forgotten := errors.AsType[errForgotten](r.Err); forgotten {
			continue // The lock has been given up meanwhile; walk finds out that the nodes are new.
		}
		if r.Err != nil {
			if ctx.Err() != nil {
				return cutOff(ctx, r.Err)
			}
			return requestError(names[i], late(r.Err))
		}
		status, err := parseStatus(names[i], r.Value)
		if _, foreign := errors.AsType[*ForeignError](err); foreign || err == nil && !status.Held() {
			continue
		}
		if err != nil {
			return err
		}
		l.seen[names[i]] = true
		if !l.yield(Found{Name: names[i], Status: status}, nil) {
			l.stopped = true
			return nil
		}
	}
	return nil
}

// globQuote returns a pattern of SCAN that matches text alone.
func globQuote(text string) string {
	return globSpecial.Replace(text)
}

var globSpecial = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
