package locker

import "time"

// A NodeHealth tells how one node of a quorum has answered of late.
type NodeHealth struct {
	Node int // the node's place in the list given to NewQuorum, from 0
	// Suspect tells that locks have been decided without the node for a while. Such a node is
	// asked only now and then, until it answers again.
	Suspect bool
	// Answered is when the node answered last, zero if it never has.
	Answered time.Time
	// Err is why the node takes no part in locks: it has not answered since, has refused what
	// it was asked (being read-only or out of memory, for instance), or has lost its data less
	// than LongestTTL ago. It is nil again once the node does what it is asked.
	Err error
}

// Nodes tells how the nodes of a quorum are doing, judging by what requests have met. It asks
// them nothing. On one deployment the result is empty.
func (c *Client) Nodes() []NodeHealth {
	if c.quorum == nil {
		return nil
	}
	var all []NodeHealth
	for i, n := range c.quorum.nodes {
		h := NodeHealth{Node: i, Suspect: n.suspect(), Err: n.objection.Load().reason()}
		if at := n.heard.Load(); at != 0 {
			h.Answered = time.UnixMicro(at)
		}
		if err := n.err.Load(); err != nil {
			h.Err = *err
		}
		all = append(all, h)
	}
	return all
}
