package redigo_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// Over net.Pipe, which buffers nothing, a server that replies while it reads
// blocks whoever writes a whole batch before reading.
func TestLargeBatch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.dial = func(context.Context, string, string) (net.Conn, error) { return r.server.Dial() }
		for _, c := range []driver.Conn{r.open(driver.Config{}), r.wrap(r.pool())} {
			big := string(make([]byte, 1<<16))
			cmds := []driver.Command{command("SET", "big", big)}
			for range 200 {
				cmds = append(cmds, command("GET", "big"), command("ECHO", big))
			}
			results := c.(driver.Batcher).DoBatch(t.Context(), cmds)
			require.Len(t, results, len(cmds))
			for i, result := range results {
				require.NoError(t, result.Err)
				if i > 0 {
					require.Equal(t, big, result.Value)
				}
			}
		}
	})
}

// What a broken batch knows: replies before the break, and nothing after it.
func TestBrokenBatch(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		r.On(wire.Match{Arg: "break"}, wire.CutReply)
		results := c.(driver.Batcher).DoBatch(t.Context(), []driver.Command{
			command("INCR", "n"), command("INCR", "break"), command("INCR", "n"),
		})
		require.Equal(t, driver.Result{Value: int64(1)}, results[0])
		for _, result := range results[1:] {
			require.Error(t, result.Err)
			require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(result.Err))
		}
	})
	t.Run("Hung", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			// Nobody reads: the first command, larger than any buffer, blocks.
			r.dial = func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				t.Cleanup(func() { _ = server.Close() })
				return client, nil
			}
			for _, c := range []driver.Conn{r.open(driver.Config{}), r.wrap(r.pool())} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				results := c.(driver.Batcher).DoBatch(ctx, []driver.Command{
					command("SET", "k", string(make([]byte, 1<<16))), command("PING"),
				})
				cancel()
				for _, result := range results {
					require.ErrorIs(t, result.Err, context.DeadlineExceeded)
					require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(result.Err))
				}
			}
		})
	})
}

func TestEmptyCommand(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		_, err := c.Do(t.Context(), driver.Command{})
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		results := c.(driver.Batcher).DoBatch(t.Context(), []driver.Command{command("PING"), {}})
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(results[0].Err))
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(results[1].Err))
		require.Empty(t, c.(driver.Batcher).DoBatch(t.Context(), nil))
		require.Zero(t, r.Dials())
	})
}

// The time for a reply begins anew with each: a long batch may take longer.
func TestSlowBatch(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		cmds := []driver.Command{command("ECHO", "a"), command("ECHO", "b"), command("ECHO", "c")}
		for i, cmd := range cmds {
			rule := r.On(wire.Match{Arg: cmd.Args[1]}, wire.HoldReply)
			time.AfterFunc(time.Duration(i+1)*(driver.DefaultTimeout-time.Second), rule.Release)
		}
		for i, result := range c.(driver.Batcher).DoBatch(t.Context(), cmds) {
			require.Equal(t, driver.Result{Value: cmds[i].Args[1]}, result)
		}
	})
}
