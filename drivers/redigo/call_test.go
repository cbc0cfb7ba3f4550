package redigo

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

type idleConn struct{ redis.Conn }

func (idleConn) Close() error                   { return nil }
func (idleConn) Err() error                     { return nil }
func (idleConn) Do(string, ...any) (any, error) { return nil, nil }

// A call may be cut between any two of its steps, here by a ctx that ends beside them.
func TestCallThatIsCutBeforeItBeginsIsNotSent(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	c := &conn{life: t.Context()}
	c.severable.Store(true)
	k := newCall(c, ctx)
	end()
	k.cut()
	assert.ErrorIs(t, k.begin(idleConn{}), context.Canceled, "nobody waits for it")
}

// A pool whose Dial panics has lost a place. Who hides that leaves calls which come later
// waiting for it, and nobody knows why.
func TestPanicOfThePoolIsNotHidden(t *testing.T) {
	sendOnClosed := func() {
		ch := make(chan int)
		close(ch)
		ch <- 1
	}
	for name, pool := range map[string]*redis.Pool{
		"Dial":        {Dial: func() (redis.Conn, error) { panic("in the application") }},
		"DialContext": {DialContext: func(context.Context) (redis.Conn, error) { panic("in the application") }},
		"TestOnBorrow": {
			MaxIdle:      1,
			Dial:         func() (redis.Conn, error) { return idleConn{}, nil },
			TestOnBorrow: func(redis.Conn, time.Time) error { panic("in the application") },
		},
		"a mistake":               {DialContext: func(ctx context.Context) (redis.Conn, error) { return ctx.(redis.Conn), nil }},
		"a mistake like redigo's": {Dial: func() (redis.Conn, error) { sendOnClosed(); return nil, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			if pool.MaxIdle > 0 {
				require.NoError(t, pool.Get().Close(), "now one is idle")
			}
			c, err := wrapPool(pool)
			require.NoError(t, err)
			c.life = t.Context()
			assert.Panics(t, func() { _, _ = c.borrow(t.Context()) })
			if pool.DialContext != nil {
				ended, end := context.WithCancel(t.Context())
				end()
				assert.Panics(t, func() { _, _ = c.borrow(ended) }, "nor where the call has ended")
			}
		})
	}
}

// Nothing but a call that is under way is kept for Close.
func TestCallsThatAreOverAreForgotten(t *testing.T) {
	opened, err := Wrap(&redis.Pool{Dial: func() (redis.Conn, error) { return idleConn{}, nil }}).Connect(t.Context())
	require.NoError(t, err)
	c := opened.(*conn)
	c.severable.Store(true)
	_, err = c.Do(t.Context(), driver.Command{Args: []string{"PING"}})
	require.NoError(t, err)
	assert.Empty(t, c.underway)
	require.NoError(t, c.Close())
}

// Calls that wait for a connection one after the other share what ends the wait, until one of
// them is broken.
func TestABrokenWaitBreaksNoLaterOne(t *testing.T) {
	k := newCall(&conn{life: t.Context()}, t.Context())
	first := k.noDial()
	require.NoError(t, first.Err())
	k.cut()
	assert.Error(t, first.Err())

	second := k.noDial()
	assert.NoError(t, second.Err(), "it was broken before it began")
	assert.Equal(t, second.Done(), k.noDial().Done(), "none is made for each call")
}

// Calls that were sent at different times end at once, and the first may be the last to tell.
func TestDistrustIsNotTakenBack(t *testing.T) {
	o, now := new(opener), time.Now()
	o.distrust(now)
	o.distrust(now.Add(-2 * time.Second))
	assert.ErrorIs(t, o.check(t.Context(), idleConn{}, now.Add(-time.Second)), errSuspect)
}

// What stands before the keys is how many they are in scripts, and not everywhere.
func TestWhatStandsBeforeKeysIsKept(t *testing.T) {
	for _, args := range [][]string{{"EVALSHA", "sha", "1", "k", "1"}, {"SINTERCARD", "1", "k"}, {"OBJECT", "ENCODING", "k"}, {"X", "y", "2", "k"}, {"GET", "k"}} {
		cmd := driver.Command{Args: args, FirstKey: slices.Index(args, "k"), NumKeys: 1}
		appended := appendArguments(nil, cmd)
		assert.Equal(t, fmt.Sprint(args[1:]), fmt.Sprint(appended))
		assert.NotContains(t, appended[cmd.FirstKey:], 1, "it is the caller's")
	}
}
