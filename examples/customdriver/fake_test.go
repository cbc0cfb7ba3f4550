package customdriver

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A fakeServer answers the commands of the connections to it, and knows how
// many there were. Its connections have no buffer: a write waits for its reader.
type fakeServer struct {
	// serve serves one connection, which is closed when it returns.
	serve func(n int64, r *bufio.Reader, w net.Conn)
	dials atomic.Int64
}

func (s *fakeServer) config() driver.Config {
	return driver.Config{Network: "tcp", Addrs: []string{"fake:6379"}, Dial: s.dial}
}

func (s *fakeServer) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	n := s.dials.Add(1)
	go func() {
		defer theirs.Close()
		s.serve(n, bufio.NewReader(theirs), theirs)
	}()
	return ours, nil
}

// echo answers each command with its last argument.
func echo(r *bufio.Reader, w io.Writer) {
	for {
		cmd, err := readReply(r)
		if err != nil {
			return
		}
		args := cmd.([]any)
		if _, err := w.Write(appendReply(nil, args[len(args)-1])); err != nil {
			return
		}
	}
}

// connect makes a client that is closed when the test ends.
func connect(t *testing.T, cfg driver.Config) driver.Conn {
	t.Helper()
	connector, err := Driver{}.OpenConnector(cfg)
	require.NoError(t, err)
	c, err := connector.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func command(args ...string) driver.Command { return driver.Command{Args: args} }

func requireEcho(t *testing.T, c driver.Conn, text string) {
	t.Helper()
	reply, err := c.Do(t.Context(), command("ECHO", text))
	require.NoError(t, err)
	require.Equal(t, text, reply)
}
