package goredis_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// Arguments are the caller's again when a call returns, also if nobody waited for it.
func TestArgumentsAreTheCallersAgain(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	conn := wrap(t, client)
	args := make([]string, 30) // more than there is room for without allocating
	for round := range 100 {
		args[0] = "RPUSH"
		args[1] = fmt.Sprint("k", round)
		for i := 2; i < len(args); i++ {
			args[i] = fmt.Sprint(round, i)
		}
		cmd := driver.Command{Args: args, FirstKey: 1, NumKeys: 1}
		ctx, cancel := context.WithCancel(t.Context())
		if round%2 == 1 {
			go cancel()
		}
		_, _ = conn.Do(ctx, cmd)
		cancel()
		clear(args)
	}
	for round := range 100 {
		for i, v := range client.LRange(soon(t), fmt.Sprint("k", round), 0, -1).Val() {
			require.Equal(t, fmt.Sprint(round, i+2), v)
		}
	}
}
