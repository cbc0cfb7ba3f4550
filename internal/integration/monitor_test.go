package integration_test

import (
	"bufio"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
)

// An executed is what a server has executed, in its own order, by MONITOR.
type executed struct {
	lines chan string
	read  map[string]bool // ids of readers that were let in
}

// monitor begins to note what the server executes.
func monitor(t *testing.T, srv *servertest.Server) *executed {
	t.Helper()
	conn, err := net.Dial("unix", srv.Socket)
	require.NoError(t, err)
	e := &executed{lines: make(chan string, 1<<16), read: map[string]bool{}}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	in := bufio.NewScanner(conn)
	require.True(t, in.Scan())
	require.Equal(t, "+OK", in.Text())
	go func() {
		defer close(done)
		for in.Scan() {
			select {
			case e.lines <- in.Text():
			default: // nobody reads any more
			}
		}
	}()
	return e
}

var (
	readGranted   = `"HSET" "%" "gl1" "rw" "([0-9a-f]{32})" "r\|`
	writeGranted  = `"HSET" "%" "gl1" "rw" "[0-9a-f]{32}" "w\|`
	writerArrived = `"HSET" "__golocker:w:{%}:%" "[0-9a-f]{32}" "gl1\|\d\|\d\|\d+\|\d+\|w\|`
)

func commandOn(name, pattern string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(pattern, "%", regexp.QuoteMeta(name)))
}

// next returns the next line.
func (e *executed) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-e.lines:
		return line
	case <-time.After(patience):
		require.FailNow(t, "the server does not execute what is waited for")
		return ""
	}
}

// readsBeforeTheWrite goes on to the next time that a writer is granted the lock, and
// returns how many readers were let in since it had its place in the queue, if it
// had to wait.
func (e *executed) readsBeforeTheWrite(t *testing.T, name string) (reads int, waited bool) {
	t.Helper()
	read, write, arrived := commandOn(name, readGranted), commandOn(name, writeGranted), commandOn(name, writerArrived)
	for {
		switch line := e.next(t); {
		case write.MatchString(line):
			return reads, waited
		case arrived.MatchString(line):
			waited = true
		case e.letsIn(read, line) && waited:
			reads++
		}
	}
}

// awaitRead goes on to the next time that a reader is let in.
func (e *executed) awaitRead(t *testing.T, name string) {
	t.Helper()
	read := commandOn(name, readGranted)
	for !e.letsIn(read, e.next(t)) {
	}
}

// letsIn tells that a reader is let in, for the first time: one that asks when it has been
// granted the lock already is granted it once more.
func (e *executed) letsIn(read *regexp.Regexp, line string) bool {
	match := read.FindStringSubmatch(line)
	if match == nil || e.read[match[1]] {
		return false
	}
	e.read[match[1]] = true
	return true
}
