package nemesis_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/nemesis"
	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/servertest"
)

const (
	lawI1 = history.Exclusion
	lawI3 = history.Fencing

	// patience is how long something may take on a machine that is busy.
	patience = 90 * time.Second
	// moment is how long no reply is waited for where there should be none.
	moment = 100 * time.Millisecond
)

// A stage is a scene with one worker, which is the test itself.
type stage struct {
	*nemesis.Scene
	t       *testing.T
	srv     *servertest.Server // the first
	workers *roll
	addr    string // where the worker's line to the first server begins
}

func newStage(t *testing.T, kind rig.Kind, needs rig.Needs) *stage {
	t.Helper()
	r := rig.Start(t, kind, needs)
	s := &stage{t: t, srv: r.Servers[0], workers: &roll{names: []string{"w1"}}}
	s.Scene = nemesis.NewScene(r, s.workers, longestTTL, 1)
	target, err := r.Target("w1", "goredis")
	require.NoError(t, err)
	s.addr = strings.TrimPrefix(target.Nodes[0].DSN, "redis://")
	return s
}

// A roll is workers that only note what is done to them.
type roll struct {
	mu    sync.Mutex
	names []string
	done  []string
}

func (r *roll) Running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.names)
}

func (r *roll) note(what, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, what+" "+name)
	return nil
}

func (r *roll) Kill(name string) error   { return r.note("kill", name) }
func (r *roll) Pause(name string) error  { return r.note("pause", name) }
func (r *roll) Resume(name string) error { return r.note("resume", name) }

func (r *roll) what() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.done)
}

// A client is one connection through the worker's line.
type client struct {
	redis.Conn
	t *testing.T
}

func (s *stage) dial() *client {
	s.t.Helper()
	conn, err := redis.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, s.t}
}

// do sends a command and requires that it is answered, in time or late.
func (c *client) do(args ...string) any {
	c.t.Helper()
	reply, err := c.try(args...)
	require.NoError(c.t, err)
	return reply
}

func (c *client) try(args ...string) (any, error) {
	return redis.DoWithTimeout(c.Conn, patience, args[0], redis.Args{}.AddFlat(args[1:])...)
}

// refused requires that a command is refused with that code.
func (c *client) refused(code string, args ...string) {
	c.t.Helper()
	_, err := c.try(args...)
	require.ErrorContains(c.t, err, code)
	require.IsType(c.t, redis.Error(""), err)
}

// send sends a command.
func (c *client) send(args ...string) {
	c.t.Helper()
	require.NoError(c.t, c.Send(args[0], redis.Args{}.AddFlat(args[1:])...))
	require.NoError(c.t, c.Flush())
}

// silent requires that for a moment nothing arrives. The client is no good afterwards.
func (c *client) silent() {
	c.t.Helper()
	_, err := redis.ReceiveWithTimeout(c.Conn, moment)
	var timeout interface{ Timeout() bool }
	require.ErrorAs(c.t, err, &timeout)
	require.True(c.t, timeout.Timeout(), err)
}

// cut requires that the connection is closed.
func (c *client) cut() error {
	c.t.Helper()
	_, err := redis.ReceiveWithTimeout(c.Conn, patience)
	require.Error(c.t, err)
	require.NotErrorAs(c.t, err, new(redis.Error))
	if timeout, ok := err.(interface{ Timeout() bool }); ok {
		require.False(c.t, timeout.Timeout(), err)
	}
	return err
}

// ask sends a command to the server itself.
func (s *stage) ask(args ...string) any {
	s.t.Helper()
	reply, err := s.srv.Do(args...)
	require.NoError(s.t, err)
	return reply
}

// becomes waits until a command has that reply on the server itself.
func (s *stage) becomes(want any, args ...string) {
	s.t.Helper()
	end := time.Now().Add(patience)
	for {
		reply := s.ask(args...)
		if fmt.Sprint(reply) == fmt.Sprint(want) {
			return
		}
		require.True(s.t, time.Now().Before(end), "%v is %v and not %v", args, reply, want)
		time.Sleep(time.Millisecond)
	}
}
