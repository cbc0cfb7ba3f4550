package redigo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

const (
	masterAddr = "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n"
	roleMaster = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
	roleSlave  = "*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.2\r\n:6379\r\n$9\r\nconnected\r\n:0\r\n"
)

// master opens a Conn on a master whose Sentinel and role the wire plays.
func (r *rig) master() driver.Conn {
	r.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer(masterAddr))
	return r.open(driver.Config{Mode: driver.ModeSentinel, Master: "m"})
}

// A master that is cut off and does not know it is left after ten seconds, however
// busy its connections are.
func TestMasterIsAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(wire.Match{Name: "ROLE", Times: -1}, wire.Answer(roleMaster))
		c := r.master()
		for range 25 {
			do(t, c, "PING")
			time.Sleep(500 * time.Millisecond)
		}
		require.Equal(t, 2, r.Count(wire.Match{Name: "SENTINEL"}))
	})
}

// What became a replica while its connection was idle is found out before the
// connection is used.
func TestIdleConnectionToDemotedMaster(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(wire.Match{Name: "ROLE"}, wire.Answer(roleMaster)) // dialed
		r.On(wire.Match{Name: "ROLE"}, wire.Answer(roleSlave))  // borrowed
		r.On(wire.Match{Name: "ROLE"}, wire.Answer(roleMaster)) // dialed again
		c := r.master()
		do(t, c, "PING")
		time.Sleep(2 * time.Second)
		do(t, c, "SET", "k", "v")
		first, second := r.Requests(wire.Match{Name: "PING"}), r.Requests(wire.Match{Name: "SET"})
		require.NotEqual(t, first[0].Conn, second[0].Conn)
	})
}

// An ACL that forbids ROLE does not forbid locking.
func TestRoleRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(wire.Match{Name: "ROLE", Times: -1}, wire.Answer("-NOPERM this user has no permissions to run the 'role' command\r\n"))
		c := r.master()
		do(t, c, "PING")
		time.Sleep(2 * time.Second)
		do(t, c, "PING")
		require.Equal(t, 1, r.Count(wire.Match{Name: "SENTINEL"}))
	})
}
