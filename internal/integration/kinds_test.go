package integration_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// A lockKind is a kind of lock, and the options that make it.
type lockKind struct {
	name string
	opts []locker.Option
}

var (
	plainKind     = lockKind{"plain", nil}
	fencedKind    = lockKind{"fenced", []locker.Option{locker.Fenced()}}
	reentrantKind = lockKind{"reentrant", []locker.Option{locker.Reentrant(), locker.Fenced()}}
	readKind      = lockKind{"read", []locker.Option{locker.ForReading(), locker.Fenced()}}
	writeKind     = lockKind{"write", []locker.Option{locker.ForWriting(), locker.Fenced()}}

	lockKinds = []lockKind{plainKind, fencedKind, reentrantKind, readKind, writeKind}
)

// on returns a lock of this kind.
func (k lockKind) on(c *locker.Client, name string, opts ...locker.Option) *locker.Mutex {
	return c.Mutex(name, append(slices.Clone(k.opts), opts...)...)
}

// against returns a lock that one of this kind has to wait for: for readers their
// writer, else another of the kind.
func (k lockKind) against(c *locker.Client, name string, opts ...locker.Option) *locker.Mutex {
	if k.name == readKind.name {
		k = writeKind
	}
	return k.on(c, name, opts...)
}

// status returns what the server knows of a lock.
func status(t *testing.T, observer *locker.Client, name string) locker.Status {
	t.Helper()
	s, err := observer.Inspect(soon(t), name)
	require.NoError(t, err)
	return s
}

// holds returns how many holds there are on a lock, by the server's word.
func holds(t *testing.T, observer *locker.Client, name string) int {
	t.Helper()
	n := 0
	for _, h := range status(t, observer, name).Holders {
		n += h.Holds
	}
	return n
}

// serverDeadline returns until when (server's ms) the owner's hold on a lock lasts.
func serverDeadline(t *testing.T, srv *servertest.Server, name, owner string) int64 {
	t.Helper()
	record, _ := do(t, srv, "HGETALL", name).([]any)
	for i := 1; i < len(record); i += 2 {
		if hold := strings.Split(record[i].(string), "|"); len(hold) > 4 && hold[4] == owner {
			until, err := strconv.ParseInt(hold[1], 10, 64)
			require.NoError(t, err)
			return until
		}
	}
	assert.Fail(t, "no such holder", owner)
	return 0
}

// assertFree checks that a lock has neither holders nor waiters, and that nothing of
// any lock is left on the server.
func assertFree(t *testing.T, srv *servertest.Server, observer *locker.Client, name string) {
	t.Helper()
	assert.Zero(t, status(t, observer, name), name)
	assert.Empty(t, keys(t, srv))
	assertMortal(t, srv)
}
