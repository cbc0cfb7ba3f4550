package goredis_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// overdue is a context whose deadline has passed, and that does not end.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// A call returns when the deadline of its context has passed, though the context never ends.
func TestContextThatNeverEnds(t *testing.T) {
	forgetTimers()
	synctest.Test(t, func(t *testing.T) {
		memory := miniredis.NewMiniRedis()
		defer memory.Close()
		conn := open(t, driver.Config{
			Addrs: []string{"127.0.0.1:6379"},
			Dial:  func(context.Context, string, string) (net.Conn, error) { return memory.Dial() },
		})
		do(t, conn, "PING")
		begun := time.Now()
		ctx := overdue{t.Context()}
		_, err := conn.Do(ctx, on("SET", "k", "v"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		for _, r := range conn.(driver.Batcher).DoBatch(ctx, []driver.Command{on("SET", "k", "v"), on("SET", "k", "w")}) {
			assert.ErrorIs(t, r.Err, context.DeadlineExceeded)
		}
		assert.Less(t, time.Since(begun), time.Second)
	})
}

// go-redis bounds a dial by a context of its own. Its end is not that of the caller's.
func TestWrapDialThatEndsIsNotTheCallersEnd(t *testing.T) {
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", DialTimeout: time.Millisecond, DialerRetries: 1, MaxRetries: -1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	defer client.Close()
	_, err := wrap(t, client).Do(soon(t), on("SET", "k", "v"))
	require.Error(t, err)
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "of the client and not of the caller")
}
