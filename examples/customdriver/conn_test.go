package customdriver

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

func TestNothingIsSentAfterTheCtxEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) { echo(r, w) }}
		cfg := s.config()
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			cancel()
			return s.dial(ctx, network, addr)
		}
		_, err := connect(t, cfg).Do(ctx, command("GET", "k"))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	})
}

// A reply that comes together with the end of the ctx is good, its connection
// is not: the interruption may still be on its way.
func TestReplyAtTheEndOfTheCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
				readReply(r)
				cancel()
				io.WriteString(w, "+OK\r\n")
			}}
			c, err := open(t.Context(), s.config())
			require.NoError(t, err)
			replies, err := c.exchange(ctx, []driver.Command{command("SET", "k", "v")})
			if err == nil {
				assert.Equal(t, []driver.Value{"OK"}, replies)
			}
			assert.True(t, c.spent)
			c.close()
		}
	})
}

func TestAbandonedCallCostsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(n int64, r *bufio.Reader, w net.Conn) {
			if n == 1 {
				readReply(r)
				time.Sleep(2 * time.Second)
				io.WriteString(w, "+late\r\n")
			}
			echo(r, w)
		}}
		c := connect(t, s.config())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.Do(ctx, command("SET", "k", "v"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
		assert.Equal(t, time.Second, time.Since(start))
		requireEcho(t, c, "two")
		time.Sleep(2 * time.Second)
		requireEcho(t, c, "three")
		assert.EqualValues(t, 2, s.dials.Load())
	})
}

func TestTimeoutBoundsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
			readReply(r)
			for _, part := range []string{"$3\r\n", "a", "b", "c", "\r\n"} {
				time.Sleep(900 * time.Millisecond)
				io.WriteString(w, part)
			}
			readReply(r)
			io.Copy(io.Discard, r) // until the client gives up
		}}
		cfg := s.config()
		cfg.Timeout = time.Second
		c := connect(t, cfg)
		reply, err := c.Do(context.Background(), command("GET", "slow"))
		require.NoError(t, err)
		assert.Equal(t, "abc", reply)

		start := time.Now()
		_, err = c.Do(context.Background(), command("GET", "silent"))
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "no ctx has ended")
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestDialTimeoutCoversGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) { io.Copy(io.Discard, r) }}
		cfg := s.config()
		cfg.Password, cfg.DialTimeout, cfg.Timeout = "secret", time.Second, time.Minute
		start := time.Now()
		_, err := connect(t, cfg).Do(context.Background(), command("GET", "k"))
		assert.EqualError(t, err, "customdriver: no connection to fake:6379 within 1s")
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "no ctx has ended")
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// With net.Pipe the server cannot read on before its reply is read.
func TestBatchAgainstServerWithoutBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) { echo(r, w) }}
		c := connect(t, s.config())
		cmds := make([]driver.Command, 100)
		for i := range cmds {
			cmds[i] = command("ECHO", strings.Repeat(strconv.Itoa(i), 2000))
		}
		for i, result := range driver.DoBatch(t.Context(), c, cmds) {
			require.NoError(t, result.Err)
			require.Equal(t, cmds[i].Args[1], result.Value)
		}
	})
}

func TestBatchBreaksHalfWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
			readReply(r)
			io.WriteString(w, "+first\r\n")
			readReply(r)
			io.WriteString(w, "-ERR second\r\n")
			readReply(r)
		}}
		c := connect(t, s.config())
		results := driver.DoBatch(t.Context(), c, []driver.Command{command("A"), command("B"), command("C"), command("D")})
		require.Len(t, results, 4)
		assert.Equal(t, driver.Result{Value: "first"}, results[0])
		assert.Equal(t, driver.Result{Err: driver.NewServerError("ERR second")}, results[1])
		for _, result := range results[2:] {
			assert.ErrorIs(t, result.Err, io.EOF)
			assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(result.Err))
		}
		assert.EqualValues(t, 1, s.dials.Load(), "nothing is sent again")
	})
}

// TLS wants to say goodbye, which a server that hangs does not listen to.
func TestHungServerBehindTLS(t *testing.T) {
	certs := servertest.NewCerts(t)
	pair, err := tls.LoadX509KeyPair(certs.CertFile, certs.KeyFile)
	require.NoError(t, err)
	now := time.Now()
	clock := func() time.Time { return now } // the bubble's is too early for certs
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
			secure := tls.Server(w, &tls.Config{Certificates: []tls.Certificate{pair}, Time: clock})
			readReply(bufio.NewReader(secure))
			<-release
		}}
		cfg := s.config()
		cfg.TLS = certs.ServerOnly()
		cfg.TLS.Time, cfg.TLS.ServerName = clock, "localhost"
		c := connect(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.Do(ctx, command("GET", "k"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestListenerHonoursCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) { time.Sleep(2 * time.Second) }}
		c := connect(t, s.config()).(*client)
		for name, call := range map[string]func(context.Context, pubsub.Conn) error{
			"send":    func(ctx context.Context, l pubsub.Conn) error { return l.Send(ctx, "PING") },
			"receive": func(ctx context.Context, l pubsub.Conn) error { _, err := l.Receive(ctx); return err },
		} {
			l, err := c.listen(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			assert.Error(t, call(ctx, l), name)
			assert.Equal(t, time.Second, time.Since(start), name)
			cancel()
			assert.NoError(t, l.Close())
			time.Sleep(2 * time.Second)
		}
	})
}
