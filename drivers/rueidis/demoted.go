package rueidis

import (
	"context"
	"strings"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

// leaveAtMost is how often, and for how long, a server is being left.
const leaveAtMost = time.Second

// isDemoted reports whether a server says that it is a master no more. Before Redis 7 it
// says so of a script in the middle of another text.
func isDemoted(reply *driver.ServerError) bool {
	return reply.Code == "READONLY" || strings.Contains(reply.Message, "-READONLY ")
}

// leave has the connection to a demoted server closed, so that the name of the master is
// looked up again; rueidis keeps a connection for as long as it works. With Sentinels and
// in a Cluster rueidis finds the new master by itself, and a wrapped client's connections
// are the application's.
//
// The server closes it, at a QUIT: replies that are under way still come. It answers
// nothing after that, and by the second QUIT, which fails, rueidis knows of the end before
// the next call.
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
	quit := func() rue.Completed { return c.client.B().Arbitrary("QUIT").Build() }
	_ = c.make(ctx, c.gates[0], &call{commands: []rue.Completed{quit(), quit()}})
}
