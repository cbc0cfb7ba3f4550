package rueidis_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func TestRegistered(t *testing.T) {
	assert.Contains(t, locker.Drivers(), "rueidis")
}

func TestWrapNil(t *testing.T) {
	type clientOfTheirs struct{ rue.Client }
	for name, c := range map[string]rue.Client{"nil": nil, "typed nil": (*clientOfTheirs)(nil)} {
		t.Run(name, func(t *testing.T) {
			conn, err := rueidis.Wrap(c).Connect(t.Context())
			assert.Nil(t, conn)
			require.ErrorIs(t, err, driver.ErrUnsupported, "it may be tried again")
			require.ErrorContains(t, err, "nil client")
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		})
	}
}

func TestWrapLeavesClientOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		c := client(t, w)
		connector := rueidis.Wrap(c)
		conn := connect(t, connector)
		do(t, conn, "SET", "k", "v")
		sub := subscribe(t, conn, "ch")
		require.NoError(t, conn.Close())

		_, err := sub.Receive(within(t, time.Minute))
		require.ErrorIs(t, err, driver.ErrClosed)
		synctest.Wait()
		assert.Equal(t, 1, w.Open(), "the subscription's connection is open")
		_, err = conn.Do(t.Context(), command("GET", "k"))
		require.ErrorIs(t, err, driver.ErrClosed)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		v, err := c.Do(t.Context(), c.B().Get().Key("k").Build()).ToString()
		require.NoError(t, err, "the application's client was closed")
		assert.Equal(t, "v", v)
		assert.Equal(t, "v", do(t, connect(t, connector), "GET", "k"))
	})
}

// With these options rueidis sends commands twice.
func TestWrapOptionsThatSendTwice(t *testing.T) {
	lifetime := func(o *rue.ClientOption) { o.ConnLifetime = time.Hour }
	redirect := func(o *rue.ClientOption) { o.ForceSingleClient, o.Standalone.EnableRedirect = false, true }
	replica := func(o *rue.ClientOption) {
		o.ForceSingleClient, o.Standalone.ReplicaAddress = false, []string{"replica:6379"}
		o.SendToReplicas = func(rue.Completed) bool { return false }
	}
	for name, options := range map[string][]func(*rue.ClientOption){
		"ConnLifetime":                  {lifetime},
		"ConnLifetime, EnableRedirect":  {lifetime, redirect},
		"ConnLifetime, replica":         {lifetime, replica},
		"EnableRedirect":                {redirect},
		"ConnLifetime, no pipelining":   {lifetime, func(o *rue.ClientOption) { o.DisableAutoPipelining = true }},
		"ConnLifetime, retries are off": {lifetime, func(o *rue.ClientOption) { o.DisableRetry = true }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				w.On(wire.Match{Name: "CLIENT", Arg: "CAPA", Times: -1}, wire.Answer("+OK\r\n"))
				_, err := rueidis.Wrap(client(t, w, options...)).Connect(t.Context())
				require.ErrorIs(t, err, driver.ErrUnsupported)
				assert.ErrorContains(t, err, "ConnLifetime")
				assert.ErrorContains(t, err, "EnableRedirect")
			})
		})
	}
}

// A call in flight through a wrapped client ends with the Conn, though its
// connection stays.
func TestWrapCloseInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := connect(t, rueidis.Wrap(client(t, w)))
		rule := w.On(wire.Match{Name: "INCR"}, wire.HoldReply)
		defer rule.Release()
		result := make(chan error, 1)
		go func() {
			_, err := conn.Do(t.Context(), command("INCR", "n"))
			result <- err
		}()
		<-rule.Happened()
		require.NoError(t, conn.Close())
		synctest.Wait()
		require.NotEmpty(t, result, "the call still waits")
		err := <-result
		require.ErrorIs(t, err, driver.ErrClosed)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err), "it was executed")
	})
}

// Once the application has closed its client, a command may have been sent or
// not; and the Conn itself is not closed.
func TestWrapClientClosedByApplication(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		c := client(t, w)
		conn := connect(t, rueidis.Wrap(c))
		c.Close()
		_, err := conn.Do(t.Context(), command("GET", "k"))
		require.ErrorIs(t, err, rue.ErrClosing)
		assert.NotErrorIs(t, err, driver.ErrClosed)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
	})
}

func TestOpenConnectorRefuses(t *testing.T) {
	for name, cfg := range map[string]driver.Config{
		"no address":            {Network: "tcp", Mode: driver.ModeCluster},
		"two servers":           {Network: "tcp", Addrs: []string{"a:1", "b:1"}},
		"no master":             {Network: "tcp", Mode: driver.ModeSentinel, Addrs: []string{"a:1"}},
		"negative timeout":      {Network: "tcp", Addrs: []string{"a:1"}, Timeout: -1},
		"negative dial timeout": {Network: "tcp", Addrs: []string{"a:1"}, DialTimeout: -1},
		"cluster database":      {Network: "tcp", Mode: driver.ModeCluster, Addrs: []string{"a:1"}, DB: 1},
		"cluster on a socket":   {Network: "unix", Mode: driver.ModeCluster, Addrs: []string{"/s"}},
		"mode":                  {Network: "tcp", Mode: 99, Addrs: []string{"a:1"}},
		"network":               {Network: "udp", Addrs: []string{"a:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rueidis.Driver{}.OpenConnector(cfg)
			require.Error(t, err)
		})
	}
}

func TestConnectServerDown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		c := connector(t, wired(w))
		w.Refuse(true)
		_, err := c.Connect(t.Context())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		w.Refuse(false)
		assert.Equal(t, "PONG", do(t, connect(t, c), "PING"))
	})
}

// NewClient has no ctx; Connect has.
func TestConnectEndsWithCtx(t *testing.T) {
	for name, hang := range map[string]func(*wire.Wire){
		"dial":      (*wire.Wire).HangDials,
		"handshake": func(w *wire.Wire) { w.On(wire.Match{Name: "HELLO"}, wire.BlackHole) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				hang(w)
				start := time.Now()
				_, err := connector(t, wired(w)).Connect(within(t, 50*time.Millisecond))
				assert.Equal(t, 50*time.Millisecond, time.Since(start))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
				synctest.Wait()
				assert.Zero(t, w.Open(), "a connection is left open")
			})
		})
	}
}

// A dial that fails proves that a command was not sent, but only for a client of
// the driver's own: a wrapped one may have sent it before.
func TestDialErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		opened := open(t, wired(w))
		wrapped := connect(t, rueidis.Wrap(client(t, w)))
		listen(t, opened)
		listen(t, wrapped)
		w.Refuse(true)
		w.KillAll()
		synctest.Wait()
		_, err := opened.Do(t.Context(), command("GET", "k"))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		_, err = wrapped.Do(t.Context(), command("GET", "k"))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
	})
}

// A dial that takes too long is not the end of our ctx.
func TestDialTimeout(t *testing.T) {
	for name, hang := range map[string]func(*wire.Wire){
		"dial":      (*wire.Wire).HangDials,
		"handshake": func(w *wire.Wire) { w.On(wire.Match{Name: "HELLO", Times: -1}, wire.BlackHole) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				cfg := wired(w)
				cfg.DialTimeout = time.Second
				c := connector(t, cfg)
				conn := connect(t, c)
				do(t, conn, "PING")
				hang(w)
				w.KillAll()
				synctest.Wait()
				start := time.Now()
				_, err := conn.Do(within(t, time.Minute), command("PING"))
				require.Error(t, err)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				_, err = c.Connect(within(t, time.Minute))
				require.Error(t, err)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				assert.LessOrEqual(t, time.Since(start), 4*time.Second)
			})
		})
	}
}

// rueidis takes ERR off what a server answers to a new connection, and not all that is left
// begins with a code.
func TestConnectRefused(t *testing.T) {
	for _, refusal := range []string{
		"ERR DB index is out of range",
		"ERR SELECT is not allowed in cluster mode",
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
		"ERR max number of clients reached",
		"ERR",
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN The cluster is down",
	} {
		t.Run(refusal, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				w.On(wire.Match{Name: "HELLO", Times: -1}, wire.Answer("-"+refusal+"\r\n"))
				_, err := connector(t, wired(w)).Connect(t.Context())
				reply, ok := asServerError(err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, driver.NewServerError(refusal), reply)
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			})
		})
	}
}

// The reply to what sets a connection up is none to the command that needs it.
func TestReconnectRefused(t *testing.T) {
	for name, connect := range map[string]func(*testing.T, *wire.Wire) driver.Conn{
		"open": func(t *testing.T, w *wire.Wire) driver.Conn { return open(t, wired(w)) },
		"wrap": func(t *testing.T, w *wire.Wire) driver.Conn { return connect(t, rueidis.Wrap(client(t, w))) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := connect(t, w)
				listen(t, conn)
				const refusal = "WRONGPASS invalid username-password pair or user is disabled."
				w.On(wire.Match{Name: "HELLO", Times: -1}, wire.Answer("-"+refusal+"\r\n"))
				w.KillAll()
				synctest.Wait()
				results := driver.DoBatch(t.Context(), conn, []driver.Command{command("INCR", "k"), command("INCR", "k")})
				_, err := conn.Do(t.Context(), command("INCR", "k"))
				for _, r := range append(results, driver.Result{Err: err}) {
					reply, ok := asServerError(r.Err)
					require.True(t, ok, "%v", r.Err)
					assert.Equal(t, driver.NewServerError(refusal), reply)
					assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(r.Err), "%v", r.Err)
				}
				assert.Zero(t, w.Count(wire.Match{Name: "INCR"}))
				_, err = conn.(driver.Describer).Describe(t.Context())
				assert.ErrorContains(t, err, refusal)
			})
		})
	}
}

// The server's ACL may be changed while it runs. Of this reply rueidis makes an error of its own.
func TestTrackingRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		hello := w.On(wire.Match{Name: "HELLO", Times: -1}, wire.Answer("%1\r\n+proto\r\n:3\r\n"))
		defer hello.Remove()
		tracking := w.On(wire.Match{Name: "CLIENT", Arg: "TRACKING"}, wire.Answer("+OK\r\n"))
		conn := connect(t, rueidis.Wrap(client(t, w, func(o *rue.ClientOption) { o.DisableCache = false })))
		listen(t, conn)
		require.Equal(t, 1, tracking.Applied())
		for _, refusal := range []string{"NOPERM this user has no permissions to run the 'client|tracking' command", "ERR no"} {
			rule := w.On(wire.Match{Name: "CLIENT", Arg: "TRACKING", Times: -1}, wire.Answer("-"+refusal+"\r\n"))
			w.KillAll()
			synctest.Wait()
			_, err := conn.Do(t.Context(), command("INCR", "k"))
			reply, ok := asServerError(err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, driver.NewServerError(refusal), reply)
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			rule.Remove()
		}
	})
}

// A password may be a word that servers use.
func TestRepliesStayWhatTheyAre(t *testing.T) {
	for _, password := range []driver.Secret{"user", "select", "p"} {
		inBubble(t, func(t *testing.T, w *wire.Wire) {
			w.On(wire.Match{Name: "HELLO", Times: -1}, wire.Answer("%1\r\n+proto\r\n:3\r\n"))
			const unselected = "NOPERM this user has no permissions to run the 'select' command"
			w.On(wire.Match{Name: "SELECT"}, wire.Answer("-"+unselected+"\r\n"))
			cfg := wired(w)
			cfg.Password, cfg.DB = password, 1
			_, err := connector(t, cfg).Connect(t.Context())
			require.ErrorContains(t, err, unselected)
			reply, ok := asServerError(err)
			require.True(t, ok)
			assert.Equal(t, driver.NewServerError(unselected), reply)

			const refusal = "ERR The user executing the script can't run this command or subcommand"
			w.On(wire.Match{Name: "EVAL"}, wire.Answer("-"+refusal+"\r\n"))
			_, err = open(t, cfg).Do(t.Context(), command("EVAL", "return 1", "0"))
			assert.Equal(t, driver.NewServerError(refusal), err)
		})
	}
}

// The client is the application's, and the driver does not know its password.
func TestNoPasswordInErrorsOfWrappedClient(t *testing.T) {
	const password = "s3cr3t-pa55word"
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		w.On(wire.Match{Name: "HELLO"}, wire.Answer("%1\r\n+proto\r\n:3\r\n"))
		conn := connect(t, rueidis.Wrap(client(t, w, func(o *rue.ClientOption) { o.Password = password })))
		listen(t, conn)
		for _, name := range []string{"HELLO", "AUTH"} {
			w.On(wire.Match{Name: name, Times: -1}, wire.Answer(
				"-ERR unknown command '"+name+"', with args beginning with: '"+password+"'\r\n"))
		}
		w.KillAll()
		synctest.Wait()
		_, err := conn.Do(t.Context(), command("PING"))
		require.ErrorContains(t, err, "unknown command 'AUTH'")
		assert.NotContains(t, err.Error(), password)
	})
}

// A server without HELLO and AUTH quotes their arguments.
func TestNoPasswordInErrors(t *testing.T) {
	const password = "s3cr3t-pa55word"
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		for _, name := range []string{"HELLO", "AUTH"} {
			w.On(wire.Match{Name: name, Times: -1}, wire.Answer(
				"-ERR unknown command '"+name+"', with args beginning with: '"+password+"'\r\n"))
		}
		cfg := wired(w)
		cfg.Password = password
		_, err := connector(t, cfg).Connect(t.Context())
		require.ErrorContains(t, err, "unknown command 'AUTH'")
		assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), password)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	})
}

// Whatever the verb: those that do not fit make package fmt look deeper.
func TestPrintingShowsNoPassword(t *testing.T) {
	const password = "s3cr3t-pa55word"
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		w.On(wire.Match{Name: "HELLO", Times: -1}, wire.Answer("%1\r\n+proto\r\n:3\r\n"))
		cfg := wired(w)
		cfg.ClientName = "name"
		cfg.Password = password
		cfg.SentinelPassword = password
		c := connector(t, cfg)
		wrapped := rueidis.Wrap(client(t, w, func(o *rue.ClientOption) { o.Password = password }))
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			for _, printed := range []any{c, wrapped, connect(t, c), connect(t, wrapped)} {
				text := fmt.Sprintf(verb, printed)
				assert.NotContains(t, text, password, "%s of a %T", verb, printed)
				assert.NotContains(t, text, fmt.Sprintf("%x", password), "%s of a %T", verb, printed)
			}
		}
	})
}
