package goredis_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// impatient is a Conn that connects fast, and waits for replies.
func impatient(t *testing.T) (*wire.Wire, driver.Conn) {
	forgetTimers()
	memory := miniredis.NewMiniRedis()
	memory.RequireUserAuth("user", "secret")
	t.Cleanup(memory.Close)
	w := wire.New(func(context.Context) (net.Conn, error) { return memory.Dial() })
	t.Cleanup(func() { _ = w.Close() })
	return w, open(t, driver.Config{Addrs: []string{"127.0.0.1:1"}, Dial: w.Dial, DialTimeout: 500 * time.Millisecond,
		Timeout: 8 * time.Second, Username: "user", Password: "secret", DB: 3, ClientName: "impatient"})
}

// meetHandshake has action meet the command of that name with which go-redis sets up a connection.
func meetHandshake(w *wire.Wire, name string, action wire.Action) {
	if name == "AUTH" { // which a server is told that knows no HELLO
		w.On(wire.Match{Name: "HELLO", Times: -1}, wire.Answer("-ERR unknown command 'HELLO'\r\n"))
	}
	w.On(wire.Match{Name: name, Times: -1}, action)
}

// A server that took connections and said nothing delayed each call by the timeout of a reply,
// after that for connecting.
func TestSilentHandshakeTakesNoLongerThanDialTimeout(t *testing.T) {
	for _, name := range []string{"HELLO", "AUTH", "SELECT", "CLIENT"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, conn := impatient(t)
				meetHandshake(w, name, wire.Silence)
				begun := time.Now()
				_, err := conn.Do(t.Context(), on("SET", "k", "v"))
				assert.Error(t, err)
				assert.Equal(t, 500*time.Millisecond, time.Since(begun))
			})
		})
	}
}

// What breaks before the command is begun to be written has not sent it.
func TestBrokenHandshakeHasSentNothing(t *testing.T) {
	for _, name := range []string{"HELLO", "AUTH", "SELECT", "CLIENT"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, conn := impatient(t)
				meetHandshake(w, name, wire.CutReply)
				_, err := conn.Do(t.Context(), on("SET", "k", "v"))
				results := driver.DoBatch(t.Context(), conn, []driver.Command{on("SET", "k", "v"), on("SET", "k", "w")})
				for _, r := range append(results, driver.Result{Err: err}) {
					require.Error(t, r.Err)
					assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(r.Err), "%v", r.Err)
				}
				assert.Zero(t, w.Count(wire.Match{Name: "SET"}))
			})
		})
	}
}

// A handshake of several requests has the time once, and what follows has its own.
func TestSlowHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, conn := impatient(t)
		slow := []*wire.Rule{w.On(wire.Match{Name: "HELLO", Times: -1}, wire.Delay(300*time.Millisecond)),
			w.On(wire.Match{Name: "SELECT", Times: -1}, wire.Delay(300*time.Millisecond))}
		begun := time.Now()
		_, err := conn.Do(t.Context(), on("SET", "k", "v"))
		assert.Error(t, err)
		assert.Equal(t, 500*time.Millisecond, time.Since(begun))
		slow[0].Remove()

		w.On(wire.Match{Name: "SET"}, wire.Delay(7*time.Second))
		_, err = conn.Do(t.Context(), on("SET", "k", "v"))
		require.NoError(t, err)
		hears(t, subscribe(t, conn, "c"), conn, "c", "there")
	})
}

// sluggish takes long to write what is no handshake.
type sluggish struct {
	net.Conn
	until time.Time
}

func (c *sluggish) SetWriteDeadline(t time.Time) error {
	c.until = t
	return c.Conn.SetWriteDeadline(t)
}

func (c *sluggish) Write(p []byte) (int, error) {
	if len(p) > 1<<10 {
		time.Sleep(time.Second)
		if time.Now().After(c.until) {
			return 0, context.DeadlineExceeded
		}
	}
	return c.Conn.Write(p)
}

// The first command on a connection may be long.
func TestFirstCommandMayBeWrittenForLongerThanDialTimeout(t *testing.T) {
	forgetTimers()
	synctest.Test(t, func(t *testing.T) {
		memory := miniredis.NewMiniRedis()
		t.Cleanup(memory.Close)
		conn := open(t, driver.Config{
			Addrs: []string{"127.0.0.1:1"}, DialTimeout: 500 * time.Millisecond, Timeout: 8 * time.Second,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				c, err := memory.Dial()
				return &sluggish{Conn: c}, err
			},
		})
		_, err := conn.Do(t.Context(), on("SET", "k", string(make([]byte, 4<<10))))
		require.NoError(t, err)
	})
}
