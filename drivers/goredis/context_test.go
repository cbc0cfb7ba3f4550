package goredis_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"

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
