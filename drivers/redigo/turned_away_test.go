package redigo_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A server in protected mode, or with too many clients, says so to whom it does not take, and closes the
// connection. That was used for the next call, which failed on it.
func TestConnectionsThatAServerTurnsAwayAreNotUsedAgain(t *testing.T) {
	for code, reply := range map[string]string{
		"DENIED": "DENIED Redis is running in protected mode because protected mode is enabled",
		"ERR":    "ERR max number of clients reached",
	} {
		bubble(t, func(t *testing.T, r *rig) {
			r.dial = func(context.Context, string, string) (net.Conn, error) {
				ours, servers := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, servers) }()
				go func() {
					_, _ = io.WriteString(servers, "-"+reply+"\r\n")
					_ = servers.Close()
				}()
				return ours, nil
			}
			for name, c := range map[string]driver.Conn{"open": r.open(driver.Config{}), "wrap": r.wrap(r.pool())} {
				for range 3 {
					_, err := c.Do(t.Context(), command("SET", "k", "v"))
					require.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err), "%s, %s: %v", name, code, err)
					require.ErrorContains(t, err, reply)
				}
			}
		})
	}
}
