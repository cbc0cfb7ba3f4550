package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
)

// An infoConn answers INFO.
type infoConn struct {
	driver.Conn
	info driver.Value
	err  error
}

func (c infoConn) Do(context.Context, driver.Command) (driver.Value, error) { return c.info, c.err }

func TestDescribeByInfo(t *testing.T) {
	c := infoConn{info: "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\ntcp_port:6379\r\n"}
	topology, err := driver.DescribeByInfo(t.Context(), c, driver.ModeSentinel)
	assert.NoError(t, err)
	assert.Equal(t, driver.Topology{Mode: driver.ModeSentinel, RunID: "abc"}, topology)

	// That would be the one of any node.
	topology, err = driver.DescribeByInfo(t.Context(), c, driver.ModeCluster)
	assert.NoError(t, err)
	assert.Equal(t, driver.Topology{Mode: driver.ModeCluster}, topology)

	never := []error{
		driver.NewServerError("NOPERM this user has no permissions to run the 'info' command"),
		driver.NewServerError("ERR unknown command 'INFO'"),
		driver.NewServerError("section (server) is not supported"), // miniredis
	}
	for _, err := range never {
		_, failed := driver.DescribeByInfo(t.Context(), infoConn{err: err}, driver.ModeSingle)
		assert.NoError(t, failed, err)
	}
	notNow := []error{
		driver.NewServerError("BUSY Redis is busy running a script."),
		driver.NewServerError("LOADING Redis is loading the dataset in memory"),
		driver.NewServerError("NOAUTH Authentication required."),
		driver.NewServerError("ERR max number of clients reached"),
		driver.NotSent(driver.NewServerError("ERR invalid password")), // to AUTH
		errors.New("no reply"),
	}
	for _, err := range notNow {
		_, failed := driver.DescribeByInfo(t.Context(), infoConn{err: err}, driver.ModeSingle)
		assert.ErrorIs(t, failed, err)
	}
}
