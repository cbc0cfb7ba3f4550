package goredis_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// A server in protected mode, or with too many clients, says so to whom it does not take, and closes the
// connection. go-redis took that for the reply to HELLO, went on, and told of a connection that broke.
func TestServerThatTurnsConnectionsAwayIsQuoted(t *testing.T) {
	for code, reply := range map[string]string{
		"DENIED": "DENIED Redis is running in protected mode because protected mode is enabled",
		"ERR":    "ERR max number of clients reached",
	} {
		for name, cfg := range map[string]driver.Config{
			"single":   {},
			"password": {Password: "secret"},
			"Sentinel": {Mode: driver.ModeSentinel, Master: "m"},
			"Cluster":  {Mode: driver.ModeCluster},
		} {
			t.Run(name+"/"+code, func(t *testing.T) {
				cfg.Addrs = []string{"127.0.0.1:1"}
				cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
					ours, servers := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, servers) }()
					go func() {
						_, _ = io.WriteString(servers, "-"+reply+"\r\n")
						_ = servers.Close()
					}()
					return ours, nil
				}
				conn := open(t, cfg)
				_, err := conn.Do(soon(t), on("SET", "k", "v"))
				_, describing := conn.(driver.Describer).Describe(soon(t))
				sub, subscribing := conn.(driver.Subscriber).Subscribe(soon(t))
				require.NoError(t, subscribing)
				subscribing = sub.Add(soon(t), "c")
				failures := []error{err, subscribing}
				results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("SET", "k", "v"), on("DEL", "k")})
				if cfg.Mode == driver.ModeCluster { // of whose batches an error that is no reply proves nothing
					unknown(t, results[0].Err)
					assert.ErrorContains(t, results[0].Err, reply)
				} else {
					failures = append(failures, describing, results[0].Err, results[1].Err)
				}
				for _, err := range failures {
					require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v", err)
					require.ErrorContains(t, err, reply)
				}
				refusal, ok := errors.AsType[*driver.ServerError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, driver.NewServerError(reply), refusal)
			})
		}
	}
}

// A script may reply in the same words. The server has taken the connection by then.
func TestReplyInTheWordsOfAServerThatTurnsAway(t *testing.T) {
	conn := open(t, driver.Config{Network: "tcp", Addrs: []string{servertest.Single(t).Addr}})
	do(t, conn, "PING")
	_, err := conn.Do(soon(t), driver.Command{Args: []string{"EVAL", "return redis.error_reply('DENIED by a script')", "0"}})
	assert.Equal(t, driver.NewServerError("DENIED by a script"), err)
}
