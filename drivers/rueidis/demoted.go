package rueidis

import (
	"context"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

// leaveAtMost is how often a server is left at most, and how long that may take.
const leaveAtMost = time.Second

// leave has rueidis leave a demoted server, which has refused cmd, for the new master. With Sentinels rueidis
// finds the new master by itself.
func (c *conn) leave(ctx context.Context, cmd driver.Command) {
	var requests []rue.Completed
	g := c.gates[0]
	switch mode := c.client.Mode(); {
	case mode == rue.ClientModeStandalone && c.dialer != nil: // a wrapped client's connections are the application's
		requests = c.farewell()
	case mode == rue.ClientModeCluster && cmd.NumKeys > 0:
		key := cmd.Keys()[0]
		requests, g = c.question(key), c.gates[driver.Slot(key)*gates/driver.Slots]
	default:
		return
	}
	// Other calls may have had the same answer on the same connection, and get here later.
	now, last := time.Now(), c.left.Load()
	if last != nil && now.Sub(*last) < leaveAtMost || !c.left.CompareAndSwap(last, &now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveAtMost)
	defer cancel()
	for _, request := range requests {
		_ = c.make(ctx, g, &call{command: request})
	}
}

// farewell has the connection to a server closed, so that the name of the master is looked up again;
// rueidis keeps a connection for as long as it works.
//
// The server closes it, at a QUIT, so that replies that are under way still arrive. It answers
// nothing after that. Once the PING has failed, or was
// answered on the next connection, rueidis has noticed the end. (In one pipeline with the QUIT it would fail too early.)
func (c *conn) farewell() []rue.Completed {
	return []rue.Completed{c.client.B().Arbitrary("QUIT").Build(), c.client.B().Arbitrary("PING").Build()}
}

// question has rueidis ask which node serves which slots, as it does when a node redirects it. A replica
// executes a script on a connection that may read there, until the script writes, and does not redirect it. rueidis makes
// such connections where it reads from replicas (SendToReplicas), and keeps one where the replica has been the master
// meanwhile. But a command that always writes is redirected to the master: this is one that changes nothing.
func (c *conn) question(key string) []rue.Completed {
	return []rue.Completed{c.client.B().Arbitrary("HDEL", probe, "").Build().ToPipe().SetSlot(key)}
}
