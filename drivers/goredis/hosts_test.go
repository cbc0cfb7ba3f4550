package goredis

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In a Cluster a node that hangs costs the others no connection; and addresses that come and go
// are forgotten.
func TestHostsAreDoubtedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(func(context.Context, string, string) (net.Conn, error) {
			near, _ := net.Pipe()
			return near, nil
		}, time.Second, time.Second)
		dial := func(addr string) net.Conn {
			conn, err := h.Dial(t.Context(), "tcp", addr)
			require.NoError(t, err)
			return conn
		}
		inDoubt := func(conn net.Conn) bool {
			_, err := conn.(syscall.Conn).SyscallConn()
			return err != nil
		}
		hangs, idle, other := dial("a:1"), dial("a:1"), dial("b:1")
		var young net.Conn
		time.AfterFunc(100*time.Millisecond, func() { young = dial("a:1") })
		require.NoError(t, hangs.SetReadDeadline(time.Now().Add(time.Second)))
		_, err := hangs.Read(make([]byte, 1))
		require.Error(t, err)
		synctest.Wait()
		assert.True(t, inDoubt(hangs))
		assert.True(t, inDoubt(idle))
		assert.False(t, inDoubt(other))
		assert.False(t, inDoubt(young), "it was made since the request")
		fresh := dial("a:1")
		assert.False(t, inDoubt(fresh), "it was made since")

		for _, conn := range []net.Conn{hangs, idle, other, young, fresh, fresh} {
			assert.NoError(t, conn.Close())
		}
		assert.Empty(t, h.open)
	})
}

// A connection that is closed while it is read from, as that of a subscription is, says nothing of others.
func TestClosedConnectionCastsNoDoubt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	h := newHosts(new(net.Dialer).DialContext, time.Second, time.Second)
	dial := func() net.Conn {
		conn, err := h.Dial(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		return conn
	}
	closed, other := dial(), dial()
	defer other.Close()
	read := make(chan error)
	go func() {
		_, err := closed.Read(make([]byte, 1))
		read <- err
	}()
	require.NoError(t, closed.Close())
	require.ErrorIs(t, <-read, net.ErrClosed)
	_, err = other.(syscall.Conn).SyscallConn()
	assert.NoError(t, err)
}
