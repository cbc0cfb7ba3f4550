package rueidis_test

import (
	"context"
	"fmt"
	"testing"

	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// wrapsErrors is a decorator that puts an error of the application around each of a result's,
// also around those that are replies.
type wrapsErrors struct{ rue.Client }

func (w wrapsErrors) Do(ctx context.Context, cmd rue.Completed) rue.RedisResult {
	return wrapped(w.Client.Do(ctx, cmd))
}

func (w wrapsErrors) DoMulti(ctx context.Context, cmds ...rue.Completed) []rue.RedisResult {
	results := w.Client.DoMulti(ctx, cmds...)
	for i := range results {
		results[i] = wrapped(results[i])
	}
	return results
}

func wrapped(r rue.RedisResult) rue.RedisResult {
	if err := r.Error(); err != nil {
		return rue.NewErrorResult(fmt.Errorf("app: %w", err))
	}
	return r
}

// bareErrors does it without anything around them.
type bareErrors struct{ rue.Client }

func (b bareErrors) Do(ctx context.Context, cmd rue.Completed) rue.RedisResult {
	r := b.Client.Do(ctx, cmd)
	if err := r.Error(); err != nil {
		return rue.NewErrorResult(err)
	}
	return r
}

// redis6 is what a server before 7.0 says of an error that a script has caught and returns.
const redis6 = "@user_script: 7: -OOM command not allowed when used memory > maxmemory."

// A command that was executed must not count as not sent, nor a reply as anything else.
func TestDecoratorThatMakesErrorsOfReplies(t *testing.T) {
	replies := map[string]error{
		"MYCODE x": driver.NewServerError("MYCODE x"),
		"ERR value is not an integer or out of range": driver.NewServerError("ERR value is not an integer or out of range"),
		"NOSCRIPT No matching script":                 driver.NewServerError("NOSCRIPT No matching script"),
		redis6:                                        driver.NewServerError(redis6),
	}
	for name, decorate := range map[string]func(rue.Client) rue.Client{
		"wraps": func(c rue.Client) rue.Client { return wrapsErrors{c} },
		"bare":  func(c rue.Client) rue.Client { return &bareErrors{c} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				decorated := decorate(client(t, w))
				conn := connect(t, rueidis.Wrap(decorated))
				for text, want := range replies {
					w.On(wire.Match{Name: "EVAL", Times: 2}, wire.Answer("-"+text+"\r\n"))
					_, err := conn.Do(t.Context(), command("EVAL", "return 1", "0"))
					assert.Equal(t, want, err)
					results := conn.(driver.Batcher).DoBatch(t.Context(), []driver.Command{
						command("GET", "absent"), command("EVAL", "return 1", "0"),
					})
					assert.Equal(t, []driver.Result{{}, {Err: want}}, results)
				}
				do(t, conn, "SET", "k", "v")
				assert.Nil(t, do(t, conn, "SET", "k", "w", "NX"))

				locks, err := locker.New(rueidis.Wrap(decorated))
				require.NoError(t, err)
				defer locks.Close()
				for _, opts := range [][]locker.Option{nil, {locker.Fenced()}} {
					m := locks.Mutex(fmt.Sprint("m", len(opts)), opts...)
					lease, err := m.TryLock(t.Context())
					require.NoError(t, err)
					_, err = m.TryLock(t.Context())
					assert.ErrorIs(t, err, locker.ErrLocked)
					assert.NoError(t, lease.Unlock(t.Context()))
				}

				w.On(wire.Match{Name: "INCR"}, wire.CutReply)
				_, err = conn.Do(t.Context(), command("INCR", "k"))
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err), "%v", err)
			})
		})
	}
}

// givesUp is a decorator that has stopped asking the server, and returns what its results were to begin
// with: as one does whose breaker is open, or that has recovered from a panic of its own.
type givesUp struct {
	rue.Client
	results int
}

func (givesUp) Do(context.Context, rue.Completed) (result rue.RedisResult) { return result }

func (g givesUp) DoMulti(context.Context, ...rue.Completed) []rue.RedisResult {
	return make([]rue.RedisResult, g.results)
}

// That is no reply of the server, and which result is that of which command nobody knows.
func TestDecoratorWithoutResults(t *testing.T) {
	cmds := []driver.Command{command("SET", "k", "v"), command("GET", "k")}
	for _, n := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				decorated := givesUp{client(t, w), n}
				conn := connect(t, rueidis.Wrap(decorated))
				v, err := conn.Do(t.Context(), cmds[0])
				results := conn.(driver.Batcher).DoBatch(t.Context(), cmds)
				require.Len(t, results, len(cmds))
				for _, r := range append(results, driver.Result{Value: v, Err: err}) {
					assert.Nil(t, r.Value)
					assert.ErrorContains(t, r.Err, "decorator")
					assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(r.Err))
				}
			})
		})
	}
}
