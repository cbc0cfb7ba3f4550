package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// go-redis takes the rest of such an array for the next replies.
func TestNestedTypedError(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	echo := func(text string) driver.Command { return driver.Command{Args: []string{"ECHO", text}} }
	for name, conn := range map[string]driver.Conn{
		"open": open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}}),
		"wrap": wrap(t, client),
	} {
		t.Run(name, func(t *testing.T) {
			nested := driver.Command{Args: []string{"EVAL", "return {1, redis.error_reply('OOM no'), 2, 3}", "0"}}
			_, err := conn.Do(soon(t), nested)
			unknown(t, err)
			for _, own := range []string{"one", "two"} {
				assert.Equal(t, own, do(t, conn, "ECHO", own))
			}

			results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{echo("a"), echo("b"), nested, echo("c"), echo("d")})
			require.Len(t, results, 5)
			assert.Equal(t, []driver.Result{{Value: "a"}, {Value: "b"}}, results[:2], "they have their replies")
			for _, r := range results[2:] {
				assert.Nil(t, r.Value)
				unknown(t, r.Err)
			}
			assert.Equal(t, "three", do(t, conn, "ECHO", "three"))
		})
	}
}

// The replies behind such an array come when the batch has returned, and each call that follows
// got that of the one before it.
func TestRepliesBehindNestedTypedErrorAreNobodys(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1})
	defer client.Close()
	hooked := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1})
	defer hooked.Close()
	hooked.AddHook(wrapsErrors{})
	conns := map[string]driver.Conn{
		"open":             open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, PoolSize: 1}),
		"wrap":             wrap(t, client),
		"wrap, with hooks": wrap(t, hooked),
	}
	for name, conn := range conns {
		for _, code := range []string{"OOM", "READONLY", "MOVED"} {
			t.Run(name+" "+code, func(t *testing.T) {
				batch := []driver.Command{
					{Args: []string{"EVAL", "return {1, {err=ARGV[1]}, 2, 3}", "0", code + " 1 no:1"}},
					{Args: []string{"BLPOP", "absent", "0.05"}},
					{Args: []string{"ECHO", "of the batch"}},
				}
				for behind := range 2 {
					cmds := append(append([]driver.Command{}, batch[2:][:behind]...), batch...)
					for _, r := range conn.(driver.Batcher).DoBatch(soon(t), cmds)[behind:] {
						assert.Nil(t, r.Value)
						unknown(t, r.Err)
					}
					for _, own := range []string{"one", "two", "three"} {
						assert.Equal(t, own, do(t, conn, "ECHO", own))
					}
					for _, r := range conn.(driver.Batcher).DoBatch(soon(t), batch[1:]) {
						assert.NoError(t, r.Err)
					}
				}
			})
		}
	}
}

// Of a single command, and in a Cluster, go-redis keeps the connection if the rest of the array
// is still under way. A client of our own drops it before it uses it again.
func TestRestOfNestedTypedErrorIsNobodys(t *testing.T) {
	server := servertest.Single(t)
	eval, echo := driver.Command{Args: []string{"EVAL", "return 1", "0"}}, driver.Command{Args: []string{"ECHO", "x"}}
	for name, cmds := range map[string][]driver.Command{"Do": {eval}, "DoBatch": {echo, eval}} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, server.Addr)
			conn := open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}, Dial: w.Dial})
			w.On(wire.Match{Name: "EVAL"}, wire.Answer("*4\r\n:1\r\n-OOM no\r\n")) // and :2 and :3 later
			results := driver.DoBatch(soon(t), conn, cmds)
			unknown(t, results[len(results)-1].Err)
			assert.Equal(t, "one", do(t, conn, "ECHO", "one"))
			left := w.Requests(wire.Match{Name: "EVAL"})[0].Conn
			for _, r := range w.Requests(wire.Match{Name: "ECHO", Arg: "one"}) {
				assert.NotEqual(t, left, r.Conn)
			}
		})
	}
}

// go-redis follows a MOVED, and tries another node of a READONLY; but where these are within an
// array the command has been executed.
func TestNestedRedirectionIsNotFollowed(t *testing.T) {
	cluster := servertest.Cluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	defer client.Close()
	cfg := driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: cluster.Addrs()[:1]}
	for name, conn := range map[string]driver.Conn{"open": open(t, cfg), "wrap": wrap(t, client)} {
		for _, text := range []string{"MOVED 1 " + cluster.Addrs()[0], "ASK 1 " + cluster.Addrs()[0], "READONLY no", "TRYAGAIN no"} {
			for calls, n := range map[string]int{"Do": 1, "DoBatch": 2} {
				t.Run(name+" "+calls+" "+text[:3], func(t *testing.T) {
					key := name + calls + text[:3]
					nested := driver.Command{
						Args:     []string{"EVAL", "redis.call('INCR', KEYS[1]) return {1, {err=ARGV[1]}, 2}", "1", key, text},
						FirstKey: 3, NumKeys: 1,
					}
					var cmds []driver.Command
					for range n {
						cmds = append(cmds, nested)
					}
					for _, r := range driver.DoBatch(soon(t), conn, cmds) {
						unknown(t, r.Err)
					}
					v, err := conn.Do(soon(t), on("GET", key))
					require.NoError(t, err)
					assert.Equal(t, map[int]string{1: "1", 2: "2"}[n], v)
				})
			}
		}
	}
}
