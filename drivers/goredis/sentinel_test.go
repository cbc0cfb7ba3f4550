package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

func TestSentinel(t *testing.T) {
	nodes := servertest.Sentinel(t)
	cfg := driver.Config{
		Mode: driver.ModeSentinel, Network: "tcp", Addrs: nodes.Addrs(), Master: servertest.MasterName,
	}
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		SentinelAddrs: nodes.Addrs(), MasterName: servertest.MasterName,
	})
	defer client.Close()

	for name, conn := range map[string]driver.Conn{"open": open(t, cfg), "wrap": wrap(t, client)} {
		t.Run(name, func(t *testing.T) {
			master := nodes.Master()
			sub := subscribe(t, conn, "c")
			hears(t, sub, conn, "c", "before")
			before, err := conn.(driver.Describer).Describe(soon(t))
			require.NoError(t, err)
			assert.Equal(t, driver.ModeSentinel, before.Mode)
			assert.NotEmpty(t, before.RunID)

			require.NotEqual(t, master.Addr, nodes.Failover().Addr)
			ctx := soon(t)
			for err := errors.New("not tried"); err != nil; _, err = conn.Do(ctx, on("SET", "k", "v")) {
				require.NoError(t, ctx.Err(), "%v", err) // its connections to the former master are being closed
			}
			_, err = sub.Receive(soon(t))
			require.ErrorIs(t, err, driver.ErrGap)
			hears(t, sub, conn, "c", "after")
			after, err := conn.(driver.Describer).Describe(soon(t))
			require.NoError(t, err)
			assert.NotEqual(t, before.RunID, after.RunID)
		})
	}
}

// A Sentinel's message can get lost, and a former master that was cut off goes on giving
// locks: within ten seconds another one is asked for.
func TestSentinelSaysNothingOfNewMaster(t *testing.T) {
	forgetTimers()
	synctest.Test(t, func(t *testing.T) {
		const sentinel, former, master = "127.0.0.1:26379", "127.0.0.1:1", "127.0.0.1:2"
		servers := map[string]*miniredis.Miniredis{}
		for _, addr := range []string{sentinel, former, master} {
			servers[addr] = miniredis.NewMiniRedis()
			t.Cleanup(servers[addr].Close)
		}
		dial := func(_ context.Context, _, addr string) (net.Conn, error) { return servers[addr].Dial() }
		conn := open(t, driver.Config{
			Mode: driver.ModeSentinel, Network: "tcp", Addrs: []string{sentinel}, Master: "m", Dial: dial,
		})
		var port atomic.Value
		port.Store("1")
		ready, err := servers[sentinel].Dial()
		require.NoError(t, err)
		require.NoError(t, ready.Close())
		require.NoError(t, servers[sentinel].Server().Register("SENTINEL", func(p *server.Peer, _ string, args []string) {
			if args[0] != "get-master-addr-by-name" { // which others there are
				p.WriteLen(0)
				return
			}
			p.WriteStrings([]string{"127.0.0.1", port.Load().(string)})
		}))

		do(t, conn, "SET", "k", "v")
		require.True(t, servers[former].Exists("k"))
		port.Store("2")
		for range 10 {
			time.Sleep(time.Second)
			do(t, conn, "SET", "k", "v")
		}
		time.Sleep(time.Millisecond)
		do(t, conn, "SET", "k", "v")
		assert.True(t, servers[master].Exists("k"))
	})
}

func TestSentinelUserWithoutPassword(t *testing.T) {
	servertest.SkipBefore(t, 6, 2, "a Sentinel with users")
	nodes := servertest.Sentinel(t, servertest.SentinelConfig("user", "asker", "on", "nopass", "~*", "&*", "+@all"))
	conn := open(t, driver.Config{
		Mode: driver.ModeSentinel, Network: "tcp", Addrs: nodes.Addrs(), Master: servertest.MasterName,
		SentinelUsername: "asker",
	})
	assert.Equal(t, "PONG", do(t, conn, "PING"))
	var clients string
	for _, s := range nodes.Sentinels {
		list, err := s.Do("CLIENT", "LIST")
		require.NoError(t, err)
		clients += fmt.Sprint(list)
	}
	assert.Contains(t, clients, "user=asker")
}

// Sentinels that know no such master answer nil, which must not be taken for
// the reply to the command, also where a hook wraps it.
func TestSentinelUnknownMaster(t *testing.T) {
	nodes := servertest.Sentinel(t)
	client := redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: nodes.Addrs(), MasterName: "nobody", DialerRetries: 1})
	defer client.Close()
	client.AddHook(wrapsErrors{})
	for name, conn := range map[string]driver.Conn{
		"open": open(t, driver.Config{Mode: driver.ModeSentinel, Network: "tcp", Addrs: nodes.Addrs(), Master: "nobody"}),
		"wrap": wrap(t, client),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := conn.Do(soon(t), on("GET", "k"))
			require.Error(t, err)
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			assert.ErrorContains(t, err, "no Sentinel knows the master's name")
			for _, r := range conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("GET", "a"), on("GET", "b")}) {
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(r.Err), "%v", r.Err)
			}
		})
	}
}
