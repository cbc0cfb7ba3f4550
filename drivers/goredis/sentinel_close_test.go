package goredis_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
)

// Who asks a Sentinel that says nothing keeps a mutex that go-redis takes to close a client, for as long
// as connecting may take.
func TestCloseDoesNotWaitForASentinelThatSaysNothing(t *testing.T) {
	dialed := make(chan net.Conn, 8)
	conn := open(t, driver.Config{
		Mode: driver.ModeSentinel, Addrs: []string{"127.0.0.1:26379"}, Master: "m",
		DialTimeout: time.Hour, Timeout: time.Hour,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, sentinels := net.Pipe()
			dialed <- sentinels
			return ours, nil
		},
	})
	returned := make(chan error)
	go func() {
		_, err := conn.Do(context.WithoutCancel(t.Context()), on("SET", "k", "v"))
		returned <- err
	}()
	sentinel := <-dialed
	t.Cleanup(func() { sentinel.Close() }) // before open waits for Close
	go func() { returned <- conn.Close() }()
	for range 2 {
		select {
		case err := <-returned:
			if err != nil {
				assert.ErrorIs(t, err, driver.ErrClosed)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("Close waits for the Sentinel")
		}
	}
}
