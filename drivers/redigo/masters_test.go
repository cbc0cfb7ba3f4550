package redigo

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A connection to a server that is not the master any more, when it turns out to have been made, ends
// none to the one that is.
func TestWhoIsLateDoesNotBringTheFormerMasterBack(t *testing.T) {
	o := &opener{cfg: driver.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		near, _ := net.Pipe()
		return near, nil
	}}}
	defer o.masters.close()
	for _, addr := range []string{"former:1", "master:1"} {
		_, err := o.masters.dial(t.Context(), o.cfg, addr)
		require.NoError(t, err)
	}
	former, ok := o.masters.formerOf("master:1")
	require.True(t, ok)
	require.Len(t, former, 1)
	o.leave(former)
	_, ok = o.masters.formerOf("former:1")
	require.False(t, ok)
	require.Empty(t, o.masters.former("master:1"))
	require.NotEmpty(t, o.masters.former(""))
}
