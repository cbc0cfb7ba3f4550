package customdriver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestUnsupported(t *testing.T) {
	for name, cfg := range map[string]driver.Config{
		"sentinel": {Mode: driver.ModeSentinel, Network: "tcp", Addrs: []string{"a:1"}},
		"cluster":  {Mode: driver.ModeCluster, Network: "tcp", Addrs: []string{"a:1"}},
		"network":  {Network: "udp", Addrs: []string{"a:1"}},
	} {
		_, err := Driver{}.OpenConnector(cfg)
		assert.ErrorIs(t, err, driver.ErrUnsupported, name)
	}
	_, err := Driver{}.OpenConnector(driver.Config{Network: "tcp"})
	assert.Error(t, err)
	_, err = Driver{}.OpenConnector(driver.Config{Network: "tcp", Addrs: []string{"a:1"}, PoolSize: -1})
	assert.Error(t, err)
}

func TestCommandWithoutName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) { echo(r, w) }}
		_, err := connect(t, s.config()).Do(t.Context(), driver.Command{})
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		assert.Zero(t, s.dials.Load())
	})
}

func TestCloseEndsCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{serve: func(n int64, r *bufio.Reader, w net.Conn) {
			if n == 1 {
				io.Copy(io.Discard, r)
			}
			echo(r, w)
		}}
		c := connect(t, s.config())
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { _, err = c.Do(context.Background(), command("GET", "k")) })
		synctest.Wait()
		requireEcho(t, c, "leaves an idle connection")

		start := time.Now()
		require.NoError(t, c.Close())
		wg.Wait()
		assert.Zero(t, time.Since(start))
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))

		_, err = c.Do(t.Context(), command("GET", "k"))
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		_, err = c.(driver.Subscriber).Subscribe(t.Context())
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.EqualValues(t, 2, s.dials.Load())
	})
}

func TestCloseEndsDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := new(fakeServer).config()
		cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := connect(t, cfg)
		var wg sync.WaitGroup
		var err error
		wg.Go(func() { _, err = c.Do(context.Background(), command("GET", "k")) })
		synctest.Wait()
		require.NoError(t, c.Close())
		wg.Wait()
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	})
}

func TestPasswordIsNeverShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// What Redis says of a command that was renamed away.
		s := &fakeServer{serve: func(_ int64, r *bufio.Reader, w net.Conn) {
			cmd, _ := readReply(r)
			fmt.Fprintf(w, "-ERR unknown command 'AUTH', with args beginning with: '%s' \r\n", cmd.([]any)[1])
		}}
		cfg := s.config()
		cfg.Password = "hunter2"
		connector, err := Driver{}.OpenConnector(cfg)
		require.NoError(t, err)
		c := connect(t, cfg)
		_, err = c.Do(t.Context(), command("GET", "k"))
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "the command itself was not sent")
		refusal, ok := errors.AsType[*driver.ServerError](err)
		require.True(t, ok)
		assert.Equal(t, "ERR", refusal.Code)
		for _, v := range []any{err, refusal, connector, c, c.(*client).pool} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
				text := fmt.Sprintf(verb, v)
				assert.NotContains(t, text, "hunter2")
				assert.NotContains(t, text, "68756e74657232")
			}
		}
	})
}
