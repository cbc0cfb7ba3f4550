package rueidis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker/driver"
)

const readonly = "-READONLY You can't write against a read only replica.\r\n"

// The name of the server may lead to the new master by now. Only the answer of the former
// one is an error to anybody: the next call is made on a new connection.
func TestReadonlyDropsConnection(t *testing.T) {
	for name, text := range map[string]string{
		"Command": readonly,
		"Script":  "-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: " + readonly, // as Redis 6 says it
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := open(t, wired(w))
				for range 3 {
					dials := w.Dials()
					w.On(wire.Match{Name: "EVAL"}, wire.Answer(text))
					_, err := conn.Do(t.Context(), command("EVAL", "return 1", "0"))
					assert.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
					do(t, conn, "SET", "k", "v")
					assert.Equal(t, dials+1, w.Dials())
					synctest.Wait()
					assert.Equal(t, 1, w.Open())
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// Not each of the calls that had the answer drops a connection: the next one may be that of
// the new master.
func TestReadonlyDropsConnectionOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		listen(t, conn)
		dials := w.Dials()
		w.On(wire.Match{Name: "SET", Times: 20}, wire.Answer(readonly))
		results := conn.(driver.Batcher).DoBatch(t.Context(), []driver.Command{command("SET", "k", "v"), command("SET", "k", "v"), command("GET", "k")})
		for _, r := range results[:2] {
			assert.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(r.Err), "%v", r.Err)
		}
		assert.Equal(t, driver.Result{}, results[2], "the batch goes on")
		var calls sync.WaitGroup
		for range 18 {
			calls.Go(func() {
				_, err := conn.Do(t.Context(), command("SET", "k", "v"))
				assert.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err), "%v", err)
			})
		}
		calls.Wait()
		do(t, conn, "SET", "k", "v")
		assert.Equal(t, dials+1, w.Dials())
	})
}

// A server that hangs just then keeps nobody waiting for long.
func TestReadonlyFromServerThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		w.On(wire.Match{Name: "SET"}, wire.Answer(readonly))
		w.On(wire.Match{Name: "QUIT"}, wire.Silence)
		start := time.Now()
		_, err := conn.Do(context.Background(), command("SET", "k", "v"))
		assert.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// A wrapped client's connections are the application's, which may use them for more.
func TestReadonlyLeavesWrappedClientAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := connect(t, rueidis.Wrap(client(t, w)))
		dials := w.Dials()
		w.On(wire.Match{Name: "SET"}, wire.Answer(readonly))
		_, err := conn.Do(t.Context(), keyed(1, 1, "SET", "k", "v"))
		require.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
		do(t, conn, "SET", "k", "v")
		assert.Equal(t, dials, w.Dials())
		assert.Zero(t, w.Count(wire.Match{Name: "HDEL"}), "it is no Cluster")
	})
}

// Who is refused anything else is where it should be.
func TestOtherRefusalsDropNoConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		dials := w.Dials()
		do(t, conn, "SET", "k", "v")
		_, err := conn.Do(t.Context(), command("INCR", "k"))
		require.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
		do(t, conn, "GET", "k")
		assert.Equal(t, dials, w.Dials())
	})
}

// slots is the answer of a Cluster's node: one of them is the master, with all slots, of the other.
func slots(master, replica string) wire.Action {
	node := "*3\r\n$9\r\n127.0.0.1\r\n:%s\r\n$1\r\n%[1]s\r\n"
	return wire.Answer("*1\r\n*4\r\n:0\r\n:16383\r\n" + fmt.Sprintf(node, master) + fmt.Sprintf(node, replica))
}

// A replica executes a script, until that writes, on a connection that may read there: rueidis has such a connection where
// it reads from replicas, and keeps it where the replica becomes the master, and a replica again. What is
// refused there is not sent to the master, and rueidis learns nothing of that.
func TestReadonlyInAClusterHasTheMasterFound(t *testing.T) {
	const key = "k"
	eval := keyed(3, 1, "EVAL", "return redis.call('INCR', KEYS[1])", "1", key)
	for name, call := range map[string]func(*testing.T, driver.Conn) error{
		"Do": func(t *testing.T, conn driver.Conn) error {
			_, err := conn.Do(within(t, 10*time.Second), eval)
			return err
		},
		"DoBatch": func(t *testing.T, conn driver.Conn) error {
			results := conn.(driver.Batcher).DoBatch(within(t, 10*time.Second), []driver.Command{command("PING"), eval})
			return results[1].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, former *wire.Wire) {
				t.Cleanup(func() { time.Sleep(time.Minute) }) // rueidis' timers of a Cluster have passed then
				memory := miniredis.NewMiniRedis()
				t.Cleanup(memory.Close)
				master := wire.New(func(context.Context) (net.Conn, error) { return memory.Dial() })
				t.Cleanup(func() { assert.NoError(t, master.Close()) })
				said := former.On(wire.Match{Name: "CLUSTER", Times: -1}, slots("1", "2"))
				c := client(t, former, func(o *rue.ClientOption) {
					o.ForceSingleClient, o.AlwaysRESP2 = false, true // so that it asks for CLUSTER SLOTS
					o.SendToReplicas = func(cmd rue.Completed) bool { return cmd.IsReadOnly() }
					o.InitAddress = []string{"127.0.0.1:1"}
					o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
						return map[string]*wire.Wire{"127.0.0.1:1": former, "127.0.0.1:2": master}[addr].Dial(ctx, "tcp", addr)
					}
				})
				conn := connect(t, rueidis.Wrap(c))
				require.NoError(t, call(t, conn))

				said.Remove()
				for _, w := range []*wire.Wire{former, master} {
					w.On(wire.Match{Name: "CLUSTER", Times: -1}, slots("2", "1"))
				}
				former.On(wire.Match{Name: "EVAL", Times: -1}, wire.Answer("-READONLY You can't write against a read only replica.\r\n"))
				former.On(wire.Match{Name: "HDEL", Times: -1}, wire.Answer("-MOVED 0 127.0.0.1:2\r\n"))
				_, err := conn.Do(t.Context(), command("EVAL", "return 1", "0")) // of no slot
				assert.Condition(t, func() bool { return err == nil || driver.OutcomeOf(err) == driver.OutcomeReplied }, "%v", err)
				assert.ErrorContains(t, call(t, conn), "READONLY")
				time.Sleep(2 * time.Second)
				assert.NoError(t, call(t, conn))
			})
		})
	}
}
