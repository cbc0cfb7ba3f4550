package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A quorum is made of different servers. Which server a node is, it tells by its run id,
// or else by what the client has written there.

// identify bars a node that is the same server as another one, or a Cluster, and lets
// no lock be taken from then on. What the other nodes hold already can be released.
func (n *node) identify(ctx context.Context, conn driver.Conn) error {
	q := n.quorum
	if n.barred.Load() {
		return driver.NotSent(q.fault())
	}
	if n.known.Load() {
		return nil
	}
	t, err := describe(ctx, conn)
	id := t.RunID
	if err == nil && id == "" && t.Mode != driver.ModeCluster {
		id, err = q.label(ctx, conn)
	}
	if err != nil {
		// Until it is known to be another server, it has no vote.
		return driver.NotSent(fmt.Errorf("which server it is: %w", err))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if n.barred.Load() { // meanwhile, by another request
		return driver.NotSent(q.fault())
	}
	why := ""
	if other, ok := q.ids[id]; ok && other != n.place {
		why = fmt.Sprintf("nodes %d and %d of the quorum are the same server (id %s); give each server once", min(n.place, other), max(n.place, other), id)
	} else if t.Mode == driver.ModeCluster {
		why = n.isCluster()
	}
	if why != "" {
		n.bar(why)
		return driver.NotSent(q.fault())
	}
	if id != "" {
		q.ids[id] = n.place
	}
	n.known.Store(true)
	return nil
}

// unmet reports whether the node was barred before it was asked anything about a lock, and
// so never will be asked: it has nothing to be told.
func (n *node) unmet() bool { return n.barred.Load() && !n.known.Load() }

// identify is [node.identify] of the node that is asked past the quorum, by its link.
func (q *quorum) identify(ctx context.Context, asked *link, conn driver.Conn) error {
	for _, n := range q.nodes {
		if n.link == asked {
			return n.identify(ctx, conn)
		}
	}
	return nil
}

// describe is what the driver knows of the server.
func describe(ctx context.Context, conn driver.Conn) (driver.Topology, error) {
	if d, ok := conn.(driver.Describer); ok {
		return d.Describe(ctx)
	}
	return driver.Topology{}, nil
}

// labelLife is how long a server keeps the label that it was given. Two nodes that are one
// server are noticed if both are reached within that time, as they are where they are given
// by mistake.
const labelLife = 10 * time.Minute

// label returns an id for a server that does not tell its run id: what this quorum's client
// wrote there first, by whichever node. It is empty where the user must not write it.
func (q *quorum) label(ctx context.Context, conn driver.Conn) (string, error) {
	key := labelPrefix + q.id
	_, err := conn.Do(ctx, native("SET", key, newID(), "NX", "PX", millis(labelLife)).command)
	if err != nil {
		if driver.OutcomeOf(err) == driver.OutcomeReplied && !transient(err) {
			return "", nil
		}
		return "", err
	}
	v, err := conn.Do(ctx, native("GET", key).command)
	if err != nil {
		return "", err
	}
	id, ok := v.(string)
	if !ok {
		return "", oddReply("GET", v)
	}
	return id, nil
}

func (n *node) bar(why string) {
	n.quorum.refuse(why)
	n.barred.Store(true)
}

func (n *node) isCluster() string {
	return fmt.Sprintf("node %d of the quorum is a Cluster; give independent servers", n.place)
}

// unmask bars a node of a Cluster that was given as a single server, so that its driver
// does not know. Such a node has a part of the keys, and answers where the others are.
func (n *node) unmask(results []driver.Result) {
	for _, r := range results {
		if reply, ok := errors.AsType[*driver.ServerError](r.Err); ok && slices.Contains([]string{"CROSSSLOT", "MOVED", "ASK"}, reply.Code) {
			n.bar(n.isCluster())
		}
	}
}
