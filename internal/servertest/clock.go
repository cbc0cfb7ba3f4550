package servertest

import (
	"encoding/binary"
	"os"
	"testing"
	"time"
)

// A Clock is the wall clock of the servers that are started with its [Clock.Option].
// A test can set it forward and back while they run.
type Clock struct {
	tb   testing.TB
	file string // holds the seconds by which the clock is off
	shim string
}

// NewClock returns a clock that is right. It needs Linux and a C compiler (cc, or the
// one that CC names); without them the test is skipped, or fails on a Linux whose
// environment has REQUIRE_REDIS=1.
func NewClock(tb testing.TB) *Clock {
	tb.Helper()
	dir := tb.TempDir()
	c := &Clock{tb: tb, file: dir + "/seconds", shim: dir + "/clock.so"}
	buildShim(tb, dir, c.shim)
	c.Set(0)
	return c
}

// Option gives the clock to a server.
func (c *Clock) Option() Option {
	return Env("LD_PRELOAD="+c.shim, "SERVERTEST_CLOCK="+c.file)
}

// Set makes the clock be off by d, in whole seconds, from now on. Valkey 9 notices it
// after a moment.
func (c *Clock) Set(d time.Duration) {
	c.tb.Helper()
	// In one write, and without truncating: the servers have the file mapped.
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second)))); err != nil {
		c.tb.Fatal(err)
	}
}
