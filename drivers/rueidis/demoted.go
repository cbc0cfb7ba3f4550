package rueidis

import (
	"context"
	"time"

	rue "github.com/redis/rueidis"
)

// leaveAtMost is how often, and for how long, a server is being left.
const leaveAtMost = time.Second

// leave has the connection to a demoted server closed, so that the name of the master is
// looked up again; rueidis keeps a connection for as long as it works. With Sentinels and
// in a Cluster rueidis finds the new master by itself, and a wrapped client's connections
// are the application's.
//
// The server closes it, at a QUIT: replies that are under way still come. It answers
// nothing after that. rueidis has noticed the end when the PING is over, which fails, or is
// answered on the next connection. (Behind the QUIT in one pipeline it would fail before.)
func (c *conn) leave(ctx context.Context) {
	if c.dialer == nil || c.client.Mode() != rue.ClientModeStandalone {
		return
	}
	// Others may have had the same answer on the same connection, and come late.
	now, last := time.Now(), c.left.Load()
	if last != nil && now.Sub(*last) < leaveAtMost || !c.left.CompareAndSwap(last, &now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveAtMost)
	defer cancel()
	for _, name := range []string{"QUIT", "PING"} {
		_ = c.make(ctx, c.gates[0], &call{command: c.client.B().Arbitrary(name).Build()})
	}
}
