package goredis_test

import (
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// The name of the server may lead to the new master by now: the connection that the former
// one has refused on is not used again, whichever command of a batch it has refused.
func TestReadonlyDropsConnection(t *testing.T) {
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial})
	defer client.Close()
	hooked := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial})
	defer hooked.Close()
	hooked.AddHook(wrapsErrors{})
	conns := map[string]driver.Conn{
		"open":             open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Dial: w.Dial}),
		"wrap":             wrap(t, client),
		"wrap, with hooks": wrap(t, hooked),
	}
	replies := map[string]string{
		"command":               "READONLY You can't write against a read only replica.",
		"script before 7.0":     "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
		"script that caught it": "@user_script: 1: -READONLY You can't write against a read only replica.",
	}
	for name, conn := range conns {
		for kind, text := range replies {
			t.Run(name+" "+kind, func(t *testing.T) {
				refusal, ok := driver.Result{Err: driver.NewServerError(text)}, driver.Result{Value: "x"}
				require.Equal(t, "READONLY", driver.NewServerError(text).Code)
				for _, want := range [][]driver.Result{{refusal, ok}, {ok, refusal}, {ok, refusal, ok, refusal}, {ok, ok}} {
					var cmds []driver.Command
					for _, r := range want {
						if r.Err == nil {
							cmds = append(cmds, driver.Command{Args: []string{"ECHO", "x"}})
						} else {
							cmds = append(cmds, driver.Command{Args: []string{"EVAL", "return 1", "0"}})
						}
					}
					rule := w.On(wire.Match{Name: "EVAL", Times: -1}, wire.Answer("-"+text+"\r\n"))
					assert.Equal(t, want, conn.(driver.Batcher).DoBatch(soon(t), cmds))
					rule.Remove()
					batch := w.Requests(wire.Match{Name: cmds[0].Name()})
					used := batch[len(batch)-1].Conn
					ping := driver.Command{Args: []string{"PING"}}
					conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{ping, ping}) // which may have a pool of its own
					next := w.Requests(wire.Match{Name: "PING"})
					dropped := next[len(next)-1].Conn != used
					assert.Equal(t, slices.Contains(want, refusal), dropped, "%v", want)
				}
			})
		}
	}
}

// A former master that is a replica now is well, so that nothing else tells of the other connections
// to it: each cost one more call that was refused, and a free lock was had after most of a second.
func TestReadonlyDropsAllConnections(t *testing.T) {
	const refusal = "READONLY You can't write against a read only replica."
	write, ok := on("SET", "k", "v"), driver.Command{Args: []string{"PING"}}
	for name, cmds := range map[string][]driver.Command{"Do": {write}, "DoBatch": {ok, write}} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, servertest.Single(t).Addr)
			conn := open(t, driver.Config{Addrs: []string{"name:1"}, Dial: w.Dial, PoolSize: idle + 1})
			fill(t, conn, w)

			reading := w.On(wire.Match{Name: "ECHO"}, wire.HoldReply) // a replica answers it after the refusal
			read := make(chan error)
			go func() {
				_, err := conn.Do(soon(t), driver.Command{Args: []string{"ECHO", "x"}})
				read <- err
			}()
			<-reading.Happened()
			former := w.Dials()
			w.On(wire.Match{Name: "SET"}, wire.Answer("-"+refusal+"\r\n"))
			results := conn.(driver.Batcher).DoBatch(soon(t), cmds)
			require.Equal(t, driver.NewServerError(refusal), results[len(results)-1].Err)
			reading.Release()
			require.NoError(t, <-read)

			passed := w.Count(wire.Match{Name: "GET"})
			fill(t, conn, w)
			for _, request := range w.Requests(wire.Match{Name: "GET"})[passed:] {
				assert.Greater(t, request.Conn, former)
			}
		})
	}
}
