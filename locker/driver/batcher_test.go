package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/golocker/golocker/locker/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errNo = errors.New("no")

// echo is a Conn that returns the name of each command, and errNo for "NO".
type echo struct{ calls []string }

func (e *echo) Do(_ context.Context, cmd driver.Command) (driver.Value, error) {
	e.calls = append(e.calls, cmd.Name())
	if cmd.Name() == "NO" {
		return nil, errNo
	}
	return cmd.Name(), nil
}

func (e *echo) Close() error { return nil }

// batching is an echo that has batches too.
type batching struct {
	echo
	batches int
}

func (b *batching) DoBatch(_ context.Context, cmds []driver.Command) []driver.Result {
	b.batches++
	results := make([]driver.Result, len(cmds))
	for i, cmd := range cmds {
		results[i].Value = "batched " + cmd.Name()
	}
	return results
}

func commands(names ...string) []driver.Command {
	cmds := make([]driver.Command, len(names))
	for i, name := range names {
		cmds[i].Args = []string{name}
	}
	return cmds
}

func TestDoBatchWithoutBatcher(t *testing.T) {
	conn := &echo{}
	got := driver.DoBatch(t.Context(), conn, commands("A", "NO", "B"))
	assert.Equal(t, []driver.Result{{Value: "A"}, {Err: errNo}, {Value: "B"}}, got)
	assert.Equal(t, []string{"A", "NO", "B"}, conn.calls)
}

func TestDoBatchUsesBatcher(t *testing.T) {
	conn := &batching{}
	got := driver.DoBatch(t.Context(), conn, commands("A", "B"))
	assert.Equal(t, []driver.Result{{Value: "batched A"}, {Value: "batched B"}}, got)
	assert.Equal(t, 1, conn.batches)
	assert.Empty(t, conn.calls)

	assert.Empty(t, driver.DoBatch(t.Context(), conn, nil))
	assert.Equal(t, 1, conn.batches, "an empty batch was sent")
}

// A command must not go around a wrapper.
func TestWrapperHidesOptionalInterfaces(t *testing.T) {
	inner := &batching{}
	var conn driver.Conn = driver.Wrapper{Conn: inner}
	_, ok := conn.(driver.Batcher)
	require.False(t, ok)
	driver.DoBatch(t.Context(), conn, commands("A"))
	assert.Zero(t, inner.batches)
	assert.Equal(t, []string{"A"}, inner.calls)
}

// miscounting is an echo whose batches come back with so many results.
type miscounting struct {
	echo
	results int
}

func (m *miscounting) DoBatch(context.Context, []driver.Command) []driver.Result {
	return make([]driver.Result, m.results)
}

func TestDoBatchOfABatcherThatMiscounts(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		got := driver.DoBatch(t.Context(), &miscounting{results: n}, commands("A", "B"))
		require.Len(t, got, 2)
		for _, r := range got {
			assert.ErrorContains(t, r.Err, fmt.Sprintf("*driver_test.miscounting returned %d results for 2 commands", n))
			assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(r.Err))
		}
	}
}
