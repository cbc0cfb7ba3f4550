package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// What go-redis keeps to itself does not get lost.
func TestWrapKeepsHooks(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	var seen commands
	client.AddHook(&seen)
	conn := wrap(t, client)
	_, err := conn.Do(t.Context(), on("SET", "k", "v"))
	require.NoError(t, err)
	conn.(driver.Batcher).DoBatch(t.Context(), []driver.Command{on("GET", "k"), on("DEL", "k")})
	assert.Equal(t, commands{"[SET k v]", "[GET k]", "[DEL k]"}, seen)
}

// commands is a hook that notes the commands it sees, as a tracer does.
type commands []string

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" && cmd.Name() != "client" {
			*c = append(*c, fmt.Sprint(cmd.Args()))
		}
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() != "client" {
				*c = append(*c, fmt.Sprint(cmd.Args()))
			}
		}
		return next(ctx, cmds)
	}
}

// wrapsErrors is a hook that puts an error of the application around each of go-redis', as
// go-redis' README shows it. A nil reply is one.
type wrapsErrors struct{}

func (wrapsErrors) DialHook(next redis.DialHook) redis.DialHook { return next }

func (wrapsErrors) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil {
			err = fmt.Errorf("app: %w", err)
			cmd.SetErr(err)
		}
		return err
	}
}

func (wrapsErrors) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if cmd.Err() != nil {
				cmd.SetErr(fmt.Errorf("app: %w", cmd.Err()))
			}
		}
		return err
	}
}

// A command that was executed must not count as not sent, nor a refusal as anything else.
func TestWrapHookThatWrapsErrors(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	client.AddHook(wrapsErrors{})
	conn := wrap(t, client)
	do(t, conn, "SET", "k", "v")
	notANumber := driver.NewServerError("ERR value is not an integer or out of range")
	counts := driver.Command{
		Args: []string{"EVAL", "redis.call('INCR', KEYS[1]) return false", "1", "n"}, FirstKey: 3, NumKeys: 1,
	}

	assert.Nil(t, do(t, conn, "SET", "k", "w", "NX"))
	assert.Nil(t, do(t, conn, counts.Args...))
	_, err := conn.Do(soon(t), on("INCR", "k"))
	assert.Equal(t, notANumber, err)
	assert.Equal(t, []driver.Result{{}, {Value: "v"}, {Err: notANumber}, {}},
		conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("SET", "k", "w", "NX"), on("GET", "k"), on("INCR", "k"), counts}))
	assert.Equal(t, "2", do(t, conn, "GET", "n"))

	locks, err := locker.New(goredis.Wrap(client))
	require.NoError(t, err)
	defer locks.Close()
	_, err = locks.Mutex("m").TryLock(soon(t))
	require.NoError(t, err)
	_, err = locks.Mutex("m").TryLock(soon(t))
	assert.ErrorIs(t, err, locker.ErrLocked)
}

// mirrors is a hook that uses another client after each SET, as one does that moves to
// another server, and tells what came of that.
type mirrors struct{ second *redis.Client }

func (mirrors) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m mirrors) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := next(ctx, cmd); err != nil || cmd.Name() != "set" {
			return err
		}
		return m.second.Ping(ctx).Err()
	}
}

func (m mirrors) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := next(ctx, cmds); err != nil || cmds[0].Name() != "set" {
			return err
		}
		err := m.second.Ping(ctx).Err()
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}

// A lock that was taken must not count as one that nobody asked for, because something else
// that the hook did could not be sent.
func TestWrapHookThatFailsAfterTheCommand(t *testing.T) {
	server := servertest.Single(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	busy := servertest.Single(t)
	line := newWire(t, busy.Addr)
	for name, second := range map[string]*redis.Client{
		"dial":         redis.NewClient(&redis.Options{Addr: listener.Addr().String(), MaxRetries: -1, DialerRetries: 1}),
		"pool timeout": redis.NewClient(&redis.Options{Addr: busy.Addr, Dialer: line.Dial, PoolSize: 1, PoolTimeout: time.Millisecond, MaxRetries: -1}),
		"exhausted":    redis.NewClient(&redis.Options{Addr: busy.Addr, Dialer: line.Dial, PoolSize: 2, MaxActiveConns: 1, MaxRetries: -1}),
		"closed":       redis.NewClient(&redis.Options{Addr: busy.Addr}),
	} {
		t.Run(name, func(t *testing.T) {
			defer second.Close()
			switch name {
			case "pool timeout", "exhausted":
				held := line.On(wire.Match{Name: "GET"}, wire.HoldReply)
				var all sync.WaitGroup
				all.Go(func() { second.Get(t.Context(), "k") })
				<-held.Happened()
				defer all.Wait()
				defer held.Release()
			case "closed":
				require.NoError(t, second.Close())
			}
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer client.Close()
			client.AddHook(mirrors{second})
			conn := wrap(t, client)
			_, err := conn.Do(soon(t), on("SET", "single "+name, "v", "NX"))
			results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("SET", "batch "+name, "v", "NX"), on("SET", "other "+name, "v", "NX")})
			for _, err := range []error{err, results[0].Err, results[1].Err} {
				unknown(t, err)
				assert.NotErrorIs(t, err, driver.ErrClosed)
			}
			plain := open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}})
			assert.Equal(t, "v", do(t, plain, "GET", "single "+name), "the test is at fault: it was not executed")
			assert.Equal(t, "v", do(t, plain, "GET", "batch "+name), "the test is at fault: it was not executed")
		})
	}
}

// prefixes is a hook that puts the application's prefix before the key of each SET.
type prefixes struct{}

func (prefixes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (prefixes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		prefix(cmd)
		return next(ctx, cmd)
	}
}

func (prefixes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			prefix(cmd)
		}
		return next(ctx, cmds)
	}
}

func prefix(cmd redis.Cmder) {
	if args := cmd.Args(); cmd.Name() == "set" {
		args[1] = "app:" + fmt.Sprint(args[1])
	}
}

// What go-redis writes then is not what it was given, so that nothing tells when it is begun.
func TestWrapHookThatChangesKeys(t *testing.T) {
	server := servertest.Single(t)
	line := newWire(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: line.Dial, MaxRetries: -1})
	defer client.Close()
	client.AddHook(prefixes{})
	conn := wrap(t, client)
	do(t, conn, "PING")
	line.On(wire.Match{Name: "SET", Times: 2}, wire.CutReply)
	_, err := conn.Do(soon(t), on("SET", "single", "v"))
	unknown(t, err)
	results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("SET", "batch", "v"), on("SET", "batch 2", "v")})
	unknown(t, results[0].Err)
	unknown(t, results[1].Err)
	assert.Equal(t, "v", do(t, conn, "GET", "app:single"), "the test is at fault: it was not executed")
	assert.Equal(t, "v", do(t, conn, "GET", "app:batch"), "the test is at fault: it was not executed")

	line.On(wire.Match{Name: "SET", Times: 1}, wire.Answer("-OOM no\r\n"))
	_, err = conn.Do(soon(t), on("SET", "refused", "v"))
	assert.Equal(t, driver.NewServerError("OOM no"), err)
}

// prefixesKeys is a hook that puts the application's prefix before each key. It reads the arguments of
// a script as those are of go-redis' own Eval.
type prefixesKeys struct{}

func (prefixesKeys) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p prefixesKeys) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		p.change(cmd)
		return next(ctx, cmd)
	}
}

func (p prefixesKeys) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			p.change(cmd)
		}
		return next(ctx, cmds)
	}
}

func (prefixesKeys) change(cmd redis.Cmder) {
	prefix(cmd)
	switch args := cmd.Args(); cmd.Name() {
	case "eval", "evalsha":
		n, _ := args[2].(int)
		for i := range n {
			args[3+i] = "app:" + fmt.Sprint(args[3+i])
		}
	}
}

// A lock has several keys, and some of its commands are scripts: were the keys of these not changed
// together with that of SET, the lock would be granted twice.
func TestWrapHookThatChangesAllKeys(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	client.AddHook(prefixesKeys{})
	var locks [2]*locker.Client
	for i := range locks {
		c, err := locker.New(goredis.Wrap(client))
		require.NoError(t, err)
		defer c.Close()
		locks[i] = c
	}
	lease, err := locks[0].Mutex("m").TryLock(soon(t))
	require.NoError(t, err)
	brief, cancel := context.WithTimeout(t.Context(), 3*time.Second) // long enough for an answer
	defer cancel()
	_, err = locks[1].Mutex("m").Lock(brief)
	require.ErrorIs(t, err, locker.ErrLocked, "granted twice")
	require.NoError(t, lease.Unlock(soon(t)))
	kept, err := server.Do("EXISTS", "m")
	require.NoError(t, err)
	assert.EqualValues(t, 0, kept)
}

// failsOpen is a hook with an open breaker: nothing is sent, and the application goes on as without Redis.
type failsOpen struct{ with error }

func (failsOpen) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f failsOpen) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return f.with }
}

func (f failsOpen) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return f.with }
}

// That nobody was asked must not count as the reply that somebody else has the lock.
func TestWrapHookThatSendsNothing(t *testing.T) {
	server := servertest.Single(t)
	for name, with := range map[string]error{"success": nil, "nothing there": redis.Nil, "a failure": errors.New("of the hook")} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer client.Close()
			client.AddHook(failsOpen{with})
			conn := wrap(t, client)
			_, err := conn.Do(soon(t), on("SET", "k", "v", "NX"))
			results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("SET", "k", "v", "NX"), on("GET", "k")})
			for _, err := range []error{err, results[0].Err, results[1].Err} {
				unknown(t, err) // it may have been sent in another way
				assert.NotContains(t, err.Error(), "Sentinel")
				assert.ErrorContains(t, err, "hook")
			}

			locks, err := locker.New(goredis.Wrap(client))
			require.NoError(t, err)
			defer locks.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = locks.Mutex("m").TryLock(ctx)
			require.Error(t, err)
			assert.NotErrorIs(t, err, locker.ErrLocked)
		})
	}
}

// tells is a hook that passes on what it sees of a command, which it does not have sent.
type tells func(args []any)

func (tells) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f tells) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		f(cmd.Args())
		return nil
	}
}

func (tells) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// How many keys a script has is an int, and nothing else is, whatever stands before the keys.
func TestWrapHookSeesWhatWasGiven(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	var seen []any
	client.AddHook(tells(func(args []any) { seen = args }))
	conn := wrap(t, client)
	for _, test := range []struct {
		args []string
		ints string
	}{
		{[]string{"EVALSHA", "sha", "1", "k", "1"}, "[2]"},
		{[]string{"SINTERCARD", "1", "k"}, "[]"}, // the first argument is what tells that a command is being written
		{[]string{"XREAD", "COUNT", "1", "STREAMS", "k", "1"}, "[]"},
		{[]string{"GET", "k"}, "[]"},
	} {
		_, _ = conn.Do(t.Context(), driver.Command{Args: test.args, FirstKey: slices.Index(test.args, "k"), NumKeys: 1})
		assert.Equal(t, fmt.Sprint(test.args), fmt.Sprint(seen))
		ints := []int{}
		for i, arg := range seen {
			if _, is := arg.(int); is {
				ints = append(ints, i)
			}
		}
		assert.Equal(t, test.ints, fmt.Sprint(ints), "%v", test.args)
	}
}

// hides is a hook that goes on as if there were no error, where there is one of these.
type hides func(error) bool

func (hides) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hides) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := next(ctx, cmd); !h(err) {
			return err
		}
		return nil
	}
}

func (h hides) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_ = next(ctx, cmds)
		for _, cmd := range cmds {
			if h(cmd.Err()) {
				cmd.SetErr(nil)
			}
		}
		return nil
	}
}

// That there was no reply, or a refusal, must not count as the reply that somebody else has the lock.
func TestWrapHookThatHidesErrors(t *testing.T) {
	isReply := func(err error) bool { _, is := errors.AsType[redis.Error](err); return is }
	for name, test := range map[string]struct {
		hides  hides
		action wire.Action
	}{
		"outages":       {func(err error) bool { return err != nil && !isReply(err) }, wire.CutReply},
		"refusals":      {func(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "OOM") }, wire.Answer("-OOM no\r\n")},
		"nothing there": {func(err error) bool { return err == redis.Nil }, wire.Answer("$-1\r\n")},
	} {
		t.Run(name, func(t *testing.T) {
			server := servertest.Single(t)
			line := newWire(t, server.Addr)
			client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: line.Dial, MaxRetries: -1})
			defer client.Close()
			client.AddHook(test.hides)
			conn := wrap(t, client)
			do(t, conn, "SET", "k", "v")
			line.On(wire.Match{Name: "SET", Times: 2}, test.action)
			_, err := conn.Do(soon(t), on("SET", "single", "v", "NX"))
			unknown(t, err)
			results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("GET", "k"), on("SET", "batch", "v", "NX")})
			assert.Equal(t, driver.Result{Value: "v"}, results[0])
			unknown(t, results[1].Err)

			locks, err := locker.New(goredis.Wrap(client))
			require.NoError(t, err)
			defer locks.Close()
			line.On(wire.Match{Name: "SET", Arg: "m"}, test.action)
			_, err = locks.Mutex("m").TryLock(soon(t))
			require.NoError(t, err, "it is free")
			_, err = locks.Mutex("m").TryLock(soon(t))
			assert.ErrorIs(t, err, locker.ErrLocked)
		})
	}
}
