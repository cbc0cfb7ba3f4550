package customdriver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestConnectionsAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) { echo(r, w) }}
		c := connect(t, s.config())
		requireEcho(t, c, "one")
		time.Sleep(time.Hour) // silence while idle is no failure
		requireEcho(t, c, "two")
		assert.EqualValues(t, 1, s.dials.Load())
	})
}

func TestIdleConnectionClosedByServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
			cmd, _ := readReply(r)
			w.Write(appendReply(nil, cmd.([]any)[1]))
		}}
		c := connect(t, s.config())
		requireEcho(t, c, "one")
		synctest.Wait() // the server has closed
		requireEcho(t, c, "two")
		assert.EqualValues(t, 2, s.dials.Load())
	})
}

// What wakes first is the server's goodbye, not the timeout of replies.
func TestIdleConnectionClosedAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
			cmd, _ := readReply(r)
			w.Write(appendReply(nil, cmd.([]any)[1]))
			time.Sleep(time.Hour)
		}}
		c := connect(t, s.config())
		requireEcho(t, c, "one")
		time.Sleep(2 * time.Hour)
		requireEcho(t, c, "two")
		assert.EqualValues(t, 2, s.dials.Load())
		time.Sleep(time.Hour) // until the server is gone
	})
}

func TestFailedDialsLeaveThePoolUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) { echo(r, w) }}
		cfg := s.config()
		cfg.PoolSize = 2
		down := errors.New("down")
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if s.dials.Load() < 5 {
				s.dials.Add(1)
				return nil, down
			}
			return s.dial(ctx, network, addr)
		}
		c := connect(t, cfg)
		for range 5 {
			_, err := c.Do(t.Context(), command("GET", "k"))
			require.ErrorIs(t, err, down)
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		}
		requireEcho(t, c, "up")
	})
}

func TestUnaskedReplyIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
			cmd, _ := readReply(r)
			w.Write(appendReply(nil, cmd.([]any)[1]))
			io.WriteString(w, "+unasked\r\n")
			echo(r, w)
		}}
		c := connect(t, s.config())
		requireEcho(t, c, "one")
		synctest.Wait()
		requireEcho(t, c, "two")
	})
}

func TestFullPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
			readReply(r)
			for _, err := io.WriteString(w, "$99999\r\n"); err == nil; _, err = io.WriteString(w, "x") {
				time.Sleep(5 * time.Second) // slow, but never silent for long
			}
		}}
		cfg := s.config()
		cfg.PoolSize, cfg.Timeout = 1, 10*time.Second
		c := connect(t, cfg)
		holder, release := context.WithCancel(t.Context())
		defer time.Sleep(5 * time.Second) // until the server notices
		var wg sync.WaitGroup
		defer wg.Wait()
		defer release()
		wg.Go(func() { c.Do(holder, command("GET", "holds")) })
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := c.Do(ctx, command("GET", "waits"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		assert.Equal(t, time.Second, time.Since(start))

		start = time.Now()
		_, err = c.Do(context.Background(), command("GET", "waits"))
		assert.ErrorContains(t, err, "raise the pool size")
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		assert.Equal(t, cfg.Timeout, time.Since(start))
		assert.EqualValues(t, 1, s.dials.Load())
	})
}

// The address may be a name that leads to the master: after a failover it has to
// be asked again.
func TestReadOnlyServerIsDialedAgain(t *testing.T) {
	const readonly = "-READONLY You can't write against a read only replica.\r\n"
	for name, answer := range map[string]string{
		"command": readonly,
		"script":  "-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: " + readonly, // as Redis 6 says it
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{serve: func(n int64, r *bufio.Reader, w net.Conn) {
					if n == 1 {
						readReply(r)
						io.WriteString(w, answer)
					}
					echo(r, w)
				}}
				c := connect(t, s.config())
				_, err := c.Do(t.Context(), command("SET", "k", "v"))
				assert.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
				requireEcho(t, c, "two")
				assert.EqualValues(t, 2, s.dials.Load())
			})
		})
	}
}

func TestConnectionPutBackAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) { echo(r, w) }}
		p := newPool(s.config().WithDefaults())
		c, err := p.get(t.Context())
		require.NoError(t, err)
		p.close()
		p.put(c)
		_, err = c.raw.Write([]byte("x"))
		assert.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

// Many callers, many of whom give up: each reply must be the caller's own.
func TestNobodyGetsTheReplyOfAnother(t *testing.T) {
	server := miniredis.RunT(t)
	c := connect(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr()}, PoolSize: 4})
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
				text := fmt.Sprint(caller, i)
				reply, err := c.Do(ctx, command("ECHO", text))
				cancel()
				if err == nil {
					assert.Equal(t, text, reply)
				} else {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				}
			}
		})
	}
	wg.Wait()
}
