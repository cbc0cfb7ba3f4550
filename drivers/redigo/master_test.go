package redigo_test

import (
	"context"
	"errors"
	"fmt"
	"net"
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
		require.Equal(t, 3, r.Count(wire.Match{Name: "SENTINEL"})) // once more as it begins to listen for failovers
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

// roleRefused is how a server answers a user that may not do ROLE.
const roleRefused = "-NOPERM this user has no permissions to run the 'role' command\r\n"

// A user that may not do ROLE has no locks of a replica either: not where a Sentinel names one,
// nor where a master has become one while its connection was idle.
func TestReplicaIsFoundOutWhereRoleIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(wire.Match{Name: "ROLE", Times: -1}, wire.Answer(roleRefused))
		says := func(role string) {
			info := "# Replication\r\nrole:" + role + "\r\nconnected_slaves:0\r\n"
			r.On(wire.Match{Name: "INFO", Arg: "replication"}, wire.Answer(fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)))
		}
		says("slave")  // dialed
		says("master") // dialed again
		says("slave")  // borrowed
		says("master") // dialed again
		c := r.master()
		_, err := c.Do(t.Context(), command("PING"))
		require.ErrorContains(t, err, "not a master")
		do(t, c, "PING")
		time.Sleep(2 * time.Second)
		do(t, c, "SET", "k", "v")
		first, second := r.Requests(wire.Match{Name: "PING"}), r.Requests(wire.Match{Name: "SET"})
		require.NotEqual(t, first[0].Conn, second[0].Conn)
	})
}

// An ACL that forbids ROLE and INFO does not forbid locking.
func TestRoleAndInfoRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(wire.Match{Name: "ROLE", Times: -1}, wire.Answer(roleRefused))
		r.On(wire.Match{Name: "INFO", Times: -1}, wire.Answer("-NOPERM this user has no permissions to run the 'info' command\r\n"))
		c := r.master()
		do(t, c, "PING")
		time.Sleep(2 * time.Second)
		do(t, c, "PING")
		require.Equal(t, 2, r.Count(wire.Match{Name: "SENTINEL"})) // as one does
	})
}

// Servers since Redis 6 take any password of a user who has none, but not without the
// user's name, which those before it do not take.
func TestPasswordThatNobodyAskedFor(t *testing.T) {
	const unasked = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	const before6 = "ERR Client sent AUTH, but no password is set"
	for name, c := range map[string]struct {
		first, named string // replies to AUTH
		want         string
		auths        int
	}{
		"Let in":            {"-" + unasked, "+OK", "", 2},
		"Another refusal":   {"-" + before6, "", before6, 1},
		"No name is taken":  {"-" + unasked, "-ERR wrong number of arguments for 'auth' command", unasked, 2},
		"Password required": {"+OK", "", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.On(wire.Match{Name: "AUTH", Arg: "default"}, wire.Answer(c.named+"\r\n"))
				r.On(wire.Match{Name: "AUTH"}, wire.Answer(c.first+"\r\n"))
				_, err := r.open(driver.Config{Password: "hunter2"}).Do(t.Context(), command("PING"))
				if c.want == "" {
					require.NoError(t, err)
				} else {
					reply, ok := errors.AsType[*driver.ServerError](err)
					require.True(t, ok, err)
					require.Equal(t, driver.NewServerError(c.want), reply)
				}
				require.Equal(t, c.auths, r.Count(wire.Match{Name: "AUTH"}))
			})
		})
	}
}

// The line may break between the two.
func TestPasswordThatNobodyAskedForOnABadLine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(wire.Match{Name: "AUTH", Arg: "default"}, wire.CutReply)
		_, err := r.open(driver.Config{Password: "hunter2"}).Do(t.Context(), command("PING"))
		require.Error(t, err)
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		_, replied := errors.AsType[*driver.ServerError](err)
		require.False(t, replied, "%v: it is not tried again", err)
	})
}

// What answers so whatever it is told is not asked for ever.
func TestPasswordThatNobodyTakes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const refusal = "ERR AUTH <password> called without any password configured for the default user."
		r.On(wire.Match{Name: "AUTH", Times: -1}, wire.Answer("-"+refusal+"\r\n"))
		_, err := r.open(driver.Config{Password: "hunter2"}).Do(t.Context(), command("PING"))
		require.ErrorContains(t, err, refusal)
		require.Equal(t, 2, r.Count(wire.Match{Name: "AUTH"}))
	})
}

// A password may be a word that servers use.
func TestRepliesStayWhatTheyAre(t *testing.T) {
	for _, password := range []driver.Secret{"user", "select", "p"} {
		bubble(t, func(t *testing.T, r *rig) {
			r.On(wire.Match{Name: "AUTH", Times: -1}, wire.Answer("+OK\r\n"))
			refuse := func(name, refusal string) {
				r.On(wire.Match{Name: name}, wire.Answer("-"+refusal+"\r\n"))
				_, err := r.open(driver.Config{Password: password, DB: 1}).Do(t.Context(), command("EVAL", "return 1", "0"))
				reply, ok := errors.AsType[*driver.ServerError](err)
				require.True(t, ok, err)
				require.Equal(t, driver.NewServerError(refusal), reply)
				require.ErrorContains(t, err, refusal)
			}
			refuse("SELECT", "NOPERM this user has no permissions to run the 'select' command")
			refuse("EVAL", "ERR The user executing the script can't run this command or subcommand")
		})
	}
}

// Servers before Redis 6 and proxies quote the arguments of what they do not know.
func TestQuotedPasswords(t *testing.T) {
	const secret, other = "correct horse", "battery staple"
	quoting := wire.Answer("-ERR unknown command `AUTH`, with args beginning with: `" + secret + "`, `" + other + "`\r\n")
	for _, mode := range []driver.Mode{driver.ModeSingle, driver.ModeSentinel} {
		for _, sentinelPassword := range []driver.Secret{"", other} {
			bubble(t, func(t *testing.T, r *rig) {
				r.On(wire.Match{Name: "AUTH", Times: -1}, quoting)
				r.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer(masterAddr))
				c := r.open(driver.Config{Mode: mode, Master: "m", Username: "ann", Password: secret, SentinelPassword: sentinelPassword})
				_, err := c.Do(t.Context(), command("PING"))
				s, _ := c.(driver.Subscriber).Subscribe(t.Context())
				for _, err := range []error{err, s.Add(t.Context(), "ch")} {
					require.ErrorContains(t, err, "unknown command")
					require.NotContains(t, err.Error(), secret)
					if sentinelPassword != "" {
						require.NotContains(t, err.Error(), other)
					}
					reply, ok := errors.AsType[*driver.ServerError](err)
					require.True(t, ok)
					require.Equal(t, "ERR", reply.Code)
					require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
				}
			})
		}
	}
}

// A Sentinel that is cut off from the others goes on naming the former master, whose host
// does not answer. The other one is asked next time.
func TestSentinelThatNamesAHungMasterHidesNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.On(wire.Match{Name: "ROLE", Times: -1}, wire.Answer(roleMaster))
		r.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer(masterAddr))
		stale := wire.New(func(context.Context) (net.Conn, error) { return r.server.Dial() })
		t.Cleanup(func() { require.NoError(t, stale.Close()) })
		stale.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer("*2\r\n$8\r\n10.0.0.9\r\n$4\r\n6379\r\n"))
		c := open(t, driver.Config{
			Mode: driver.ModeSentinel, Master: "m", Addrs: []string{"stale:26379", "other:26379"}, DialTimeout: time.Second,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				switch addr {
				case "stale:26379":
					return stale.Dial(ctx, network, addr)
				case "10.0.0.9:6379":
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return r.Dial(ctx, network, addr)
			},
		})
		_, err := c.Do(t.Context(), command("PING"))
		require.Error(t, err, "the time is over")
		do(t, c, "PING")
		do(t, c, "PING")
	})
}
