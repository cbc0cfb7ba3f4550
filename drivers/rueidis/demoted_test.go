package rueidis_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		_, err := conn.Do(t.Context(), command("SET", "k", "v"))
		require.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
		do(t, conn, "SET", "k", "v")
		assert.Equal(t, dials, w.Dials())
	})
}
