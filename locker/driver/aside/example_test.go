package aside_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/golocker/golocker/locker/driver/aside"
)

// A call of a client that heeds no cancellation.
type call struct {
	reply <-chan string
	came  string
}

var _ aside.Task = (*call)(nil)

// Run waits for a reply.
func (c *call) Run() { c.came = <-c.reply }

// The client dials without asking for a ctx.
func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	hangs := make(chan struct{})
	dial := func() (net.Conn, error) { <-hangs; return nil, net.ErrClosed }
	_, err := aside.Open(ctx, nil, dial, func(late net.Conn) { _ = late.Close() })
	fmt.Println(err)
	// Output: context deadline exceeded
}

// The driver's Conn has one Crew, for all its calls.
func ExampleCrew() {
	var crew aside.Crew
	defer crew.Close()

	reply := make(chan string, 1)
	reply <- "OK"
	c := &call{reply: reply}
	fmt.Println(crew.Call(context.Background(), nil, c), c.came)

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	c = &call{reply: reply} // which does not come; c is not touched any more
	fmt.Println(crew.Call(ctx, nil, c))
	// Output:
	// <nil> OK
	// context deadline exceeded
}

// The reply comes before ctx ends, so that the connection stays as it is.
func ExampleOnEnd() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	closed := false
	stop := aside.OnEnd(ctx, func() { closed = true })
	// The request is made here, by the caller's own goroutine.
	fmt.Println("in time:", stop(), "closed:", closed)
	// Output: in time: true closed: false
}

// The connection had the same deadline as ctx, and broke a moment before ctx ended.
func ExampleEnded() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	timeout := fmt.Errorf("i/o timeout")
	if deadline, _ := ctx.Deadline(); time.Until(deadline) > 0 {
		time.Sleep(time.Until(deadline)) // as a read from the connection does
	}
	if err := aside.Ended(ctx); err != nil {
		timeout = fmt.Errorf("%w: %v", err, timeout)
	}
	fmt.Println(timeout)
	// Output: context deadline exceeded: i/o timeout
}
