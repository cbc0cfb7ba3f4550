package testinglocks

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
)

func TestImportsThoughTheReplyThatItHasTheLockIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis) {
		line := wire.New(func(context.Context) (net.Conn, error) { return server.Dial() })
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: line.Dial})
		t.Cleanup(func() { rdb.Close(); line.Close() })
		locks, err := locker.New(goredis.Wrap(rdb))
		require.NoError(t, err)
		t.Cleanup(func() { locks.Close() })
		importer := &Importer{
			Locks: locks,
			Fetch: func(context.Context) ([]string, error) { return nil, nil },
			Store: func(context.Context, []string, locker.Token) error { return nil },
		}

		lost := line.On(wire.Match{Name: "EVAL"}, wire.CutReply)
		assert.NoError(t, importer.Run(t.Context()))
		assert.Equal(t, 1, lost.Applied(), "nothing was lost")
		assert.False(t, server.Exists("import"), "the lock is left behind")
	})
}
