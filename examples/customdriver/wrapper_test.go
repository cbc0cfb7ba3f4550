package customdriver_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/examples/customdriver"
	"github.com/golocker/golocker/locker/driver"
)

// A counter is a Conn that counts the commands through it.
type counter struct {
	driver.Wrapper
	commands atomic.Int64
}

func (c *counter) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	c.commands.Add(1)
	return c.Wrapper.Do(ctx, cmd)
}

// DoBatch keeps the batches of the Conn inside, which has them.
func (c *counter) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	c.commands.Add(int64(len(cmds)))
	return driver.DoBatch(ctx, c.Wrapper.Conn, cmds)
}

func TestWrapperSeesEveryCommand(t *testing.T) {
	server := miniredis.RunT(t)
	connector, err := customdriver.Driver{}.OpenConnector(driver.Config{Network: "tcp", Addrs: []string{server.Addr()}})
	require.NoError(t, err)
	inside, err := connector.Connect(t.Context())
	require.NoError(t, err)
	c := &counter{Wrapper: driver.Wrapper{Conn: inside}}
	defer c.Close()

	ping := driver.Command{Args: []string{"PING"}}
	_, err = c.Do(t.Context(), ping)
	require.NoError(t, err)
	for _, result := range driver.DoBatch(t.Context(), c, []driver.Command{ping, ping}) {
		require.NoError(t, result.Err)
	}
	assert.EqualValues(t, 3, c.commands.Load())
	_, ok := driver.Conn(c).(driver.Subscriber)
	assert.False(t, ok, "the wrapper did not ask for it")
}
