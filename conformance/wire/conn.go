package wire

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/internal/resp"
)

// A conn is one connection of a client and the one to the server that belongs to
// it. Four goroutines read and write its two sides; the queues between them
// never block.
type conn struct {
	wire           *Wire
	id             int
	client, server net.Conn
	up, down       *queue

	stop     chan struct{} // closed by kill
	stopOnce sync.Once

	// Guarded by wire.mu.
	inflight         []*exchange
	muteUp, muteDown bool
	clientGone       bool
}

func (c *conn) run() {
	var all sync.WaitGroup
	all.Go(c.readClient)
	all.Go(c.readServer)
	all.Go(func() {
		c.write(c.server, c.up, up)
		c.hangUp()
	})
	all.Go(func() {
		c.write(c.client, c.down, down)
		if !c.gone() {
			c.kill() // the server is gone and the client has all it sent
		}
	})
	all.Wait()
	_ = c.client.Close()
	_ = c.server.Close()
	c.wire.mu.Lock()
	delete(c.wire.conns, c)
	c.wire.mu.Unlock()
}

func (c *conn) kill() {
	c.stopOnce.Do(func() {
		close(c.stop)
		_ = c.client.Close()
		_ = c.server.Close()
		c.up.close()
		c.down.close()
	})
}

// reset makes the kernel tell both sides that the connection was not closed in order.
func (c *conn) reset() {
	for _, side := range []net.Conn{c.client, c.server} {
		if lingering, ok := side.(interface{ SetLinger(int) error }); ok {
			_ = lingering.SetLinger(0)
		}
	}
	c.kill()
}

// write sends what is in q to one side, each item when its time has come.
func (c *conn) write(to net.Conn, q *queue, on way) {
	for {
		it, ok := q.pop(c.stop)
		if !ok || !c.wait(it, on) {
			return
		}
		if len(it.data) > 0 { // an empty write to a pipe would wait for a reader
			if it.note != nil {
				it.note() // before: whoever sees the effect sees the note
			}
			_, _ = to.Write(it.data)
		}
		if it.last {
			c.kill()
			return
		}
	}
}

// wait waits until the item may be sent. It reports false when the connection is dead.
func (c *conn) wait(it item, on way) bool {
	if it.gate != nil {
		select {
		case <-it.gate:
		case <-c.stop:
			return false
		}
	}
	if it.delay > 0 {
		t := time.NewTimer(it.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.stop:
			return false
		}
	}
	for gate := c.wire.partition(on); gate != nil; gate = c.wire.partition(on) {
		select {
		case <-gate:
		case <-c.stop:
			return false
		}
	}
	return true
}

func (c *conn) readClient() {
	r := bufio.NewReaderSize(c.client, 16<<10)
	for {
		frame, err := resp.ReadFrame(r)
		if err != nil {
			c.readError("client", err)
			break
		}
		args, err := resp.Strings(frame)
		if err != nil {
			c.readError("client", err)
			c.kill()
			break
		}
		c.request(args, frame)
	}
	c.wire.mu.Lock()
	c.clientGone = true
	c.wire.mu.Unlock()
	c.up.close()   // what is in it is still delivered
	c.down.close() // nobody waits for it
}

func (c *conn) gone() bool {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	return c.clientGone
}

// hangUp tells the server, after the last request, that the client is gone. On
// TCP it closes its half only: closing while replies arrive could make the
// kernel take back what the server has not read yet.
func (c *conn) hangUp() {
	if half, ok := c.server.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.server.Close()
}

func (c *conn) readServer() {
	r := bufio.NewReaderSize(c.server, 16<<10)
	for {
		frame, err := resp.ReadFrame(r)
		if err != nil {
			c.readError("server", err)
			break
		}
		c.reply(frame)
	}
	c.wire.mu.Lock()
	mute := c.muteDown
	c.wire.mu.Unlock()
	if !mute { // a black hole does not tell that the server hung up
		c.down.close()
	}
}

func (c *conn) readError(side string, err error) {
	if _, ok := errors.AsType[resp.ProtocolError](err); ok {
		c.wire.report(c, side, err)
	}
}
