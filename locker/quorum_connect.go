package locker

import (
	"context"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// connectTime is how long making a connection to a node may take: a few round trips, where a
// request is one. The driver drops a connection that is not complete when the time of its
// request is up, and the next request begins anew, so that a node that is far away would stay
// out of reach for good.
const connectTime = 5 * time.Second

// prepare has a connection to the node made that the next request finds ready, unless one
// is being made. It is for requests whose time was up: a request that failed before that,
// as where the node refuses connections, leaves the next one all of its time. It says
// nothing about how the node does: requests tell.
func (n *node) prepare() {
	if n.preparing.Swap(true) {
		return
	}
	n.quorum.preparing.Go(func() {
		defer n.preparing.Store(false)
		ctx, cancel := context.WithTimeout(n.quorum.ctx, connectTime)
		defer cancel()
		conn, err := n.dial(ctx)
		if err == nil {
			err = n.identify(ctx, conn.Conn)
		}
		if err == nil {
			// Whatever is answered, there is a connection.
			_, _ = conn.Do(ctx, driver.Command{Args: []string{"PING"}})
		}
	})
}
