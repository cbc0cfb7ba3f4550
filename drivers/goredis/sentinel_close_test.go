package goredis_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// Who asks a Sentinel that says nothing keeps a mutex that go-redis takes to close a client, for as long
// as connecting may take.
func TestCloseDoesNotWaitForASentinelThatSaysNothing(t *testing.T) {
	dialed := make(chan net.Conn, 8)
	conn := open(t, sentinelThatHangs(func(context.Context, string, string) (net.Conn, error) {
		ours, sentinels := net.Pipe()
		dialed <- sentinels
		return ours, nil
	}))
	called := make(chan error, 1)
	go func() {
		_, err := conn.Do(context.WithoutCancel(t.Context()), on("SET", "k", "v"))
		called <- err
	}()
	sentinel := <-dialed
	closesAtOnce(t, conn, func() { _ = sentinel.Close() })
	assert.ErrorIs(t, <-called, driver.ErrClosed)
}

// So does who listens to it, and connects again.
func TestCloseDoesNotWaitForASentinelThatIsDialed(t *testing.T) {
	servers := newFakeCluster(t)
	sentinel := servers.answersAsSentinel()
	dialed := make(chan struct{}, 100)
	conn := open(t, sentinelThatHangs(func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed <- struct{}{}
		return servers.Dial(ctx, network, addr)
	}))
	do(t, conn, "SET", "k", "v")
	for range 3 { // to ask, to listen, and to the master
		<-dialed
	}
	require.Empty(t, dialed, "the test is at fault: somebody dials")
	sentinel.HangDials()
	defer sentinel.ResumeDials()
	sentinel.KillAll()
	<-dialed
	closesAtOnce(t, conn, sentinel.ResumeDials)
}

// Nor does who listens to a Sentinel that is well outlive Close.
func TestCloseWithSentinelsLeavesNobody(t *testing.T) {
	for range 50 {
		forgetTimers()
		synctest.Test(t, func(t *testing.T) { // waits for whoever is there, and for no timer
			servers := newFakeCluster(t)
			servers.answersAsSentinel()
			conn := open(t, driver.Config{Mode: driver.ModeSentinel, Addrs: []string{"127.0.0.1:3"}, Master: "m", Dial: servers.Dial})
			do(t, conn, "SET", "k", "v")
			synctest.Wait()
			require.NoError(t, conn.Close())
		})
	}
}

// sentinelThatHangs is a Config whose timeouts are longer than any test.
func sentinelThatHangs(dial driver.DialFunc) driver.Config {
	return driver.Config{
		Mode: driver.ModeSentinel, Addrs: []string{"127.0.0.1:3"}, Master: "m",
		DialTimeout: time.Hour, Timeout: time.Hour, Dial: dial,
	}
}

// closesAtOnce fails the test if Close waits, until free ends that.
func closesAtOnce(t *testing.T, conn driver.Conn, free func()) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- conn.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		free()
		t.Fatal("Close waits for the Sentinel")
	}
}
