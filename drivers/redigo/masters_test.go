package redigo

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/netdial"
)

// A connection to a server that is not the master any more, when it turns out to have been made, ends
// none to the one that is.
func TestWhoIsLateDoesNotBringTheFormerMasterBack(t *testing.T) {
	o := &opener{
		conn:    &conn{life: t.Context()},
		masters: masters{dialers: map[string]*netdial.Dialer{}},
		cfg: driver.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			near, _ := net.Pipe()
			return near, nil
		}},
	}
	defer o.leaveFor("", false)
	conns := map[string]net.Conn{}
	for _, addr := range []string{"former:1", "master:1"} {
		conn, err := o.dialNamed(t.Context(), "tcp", addr)
		require.NoError(t, err)
		conns[addr] = conn
	}
	require.True(t, o.leaveFor("master:1", true))
	_, err := conns["former:1"].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.False(t, o.leaveFor("former:1", true))
	require.NoError(t, conns["master:1"].SetDeadline(time.Now()))
	_, err = conns["master:1"].Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it has ended")
}

// A master that is named while the Conn is closed is not dialed: nobody would close the connection.
func TestNoMasterIsDialedAfterClose(t *testing.T) {
	life, end := context.WithCancel(t.Context())
	end()
	o := &opener{
		conn:    &conn{life: life},
		masters: masters{dialers: map[string]*netdial.Dialer{}},
		cfg: driver.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			t.Error("dialed")
			return nil, io.EOF
		}},
	}
	_, err := o.dialNamed(t.Context(), "tcp", "master:1")
	require.Error(t, err)
}
