package main

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
)

// The test binary is its own worker, as the program is.
func TestMain(m *testing.M) {
	program.PlayPart()
	os.Exit(m.Run())
}

func playThrough(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	status := program.Run(append(args, "-ttl", "1s"), &out, &errs)
	require.Zero(t, status, "%s%s", out.String(), errs.String())
	return out.String()
}

func assertPlayed(t *testing.T, out string) {
	t.Helper()
	for _, line := range []string{
		`Winners drawn: +10 of 10`, `Last ticket sold to: +worker \d`, `Workers killed in the act: +1`,
		`Late writes refused: +1`, `Violations: +0`,
	} {
		assert.Regexp(t, regexp.MustCompile(line), out)
	}
}

func TestEmbedded(t *testing.T) {
	assertPlayed(t, playThrough(t))
}

func TestEveryDriverOnARealServer(t *testing.T) {
	server := servertest.Single(t)
	for _, name := range []string{"goredis", "rueidis", "redigo"} {
		t.Run(name, func(t *testing.T) {
			assertPlayed(t, playThrough(t, "-driver", name, "-url", "redis://"+server.Addr))
		})
	}
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-driver", "nosuch"},
		{"-url", "redis://:hunter2@nowhere.invalid:1"},
		{"-url", "nonsense"},
		{"-ttl", "1ms"},
		{"-nosuchflag"},
	} {
		var out, errs bytes.Buffer
		assert.NotZero(t, program.Run(args, &out, &errs), "%q", args)
		assert.NotEmpty(t, errs.String(), "%q", args)
		assert.NotContains(t, errs.String()+out.String(), "hunter2")
	}
}

type silence struct{}

func (silence) Say(string, ...any)   {}
func (silence) Print(string, ...any) {}

// The ledger is what finds violations; it must be able to.
func TestLedgerFindsViolations(t *testing.T) {
	l := newLedger(silence{})
	l.enter(entry{Worker: "a", Job: "lottery", Token: 2})
	l.write(entry{Worker: "a", Job: "lottery", Token: 2, Prize: 1, Name: "x"})
	l.enter(entry{Worker: "b", Job: "lottery", Token: 1}) // beside a, and with a smaller token
	l.write(entry{Worker: "a", Job: "lottery", Token: 2, Prize: 1, Name: "x"})
	l.write(entry{Worker: "a", Job: "market", Token: 2, Name: "a"})
	l.write(entry{Worker: "b", Job: "market", Token: 2, Name: "b"})
	assert.False(t, l.summary())
	assert.Len(t, l.failures, 6)
	_, ok := l.write(entry{Worker: "b", Job: "lottery", Token: 1})
	assert.False(t, ok, "a smaller token is refused")
}

// A worker that was paused is watched like any other from its next lease on.
func TestTheLedgerWatchesWhoGoesOn(t *testing.T) {
	l := newLedger(silence{})
	l.enter(entry{Worker: "paused", Job: "lottery", Token: 1})
	l.idle["paused"] = true
	l.enter(entry{Worker: "a", Job: "lottery", Token: 2}) // when its lease is over
	l.leave(entry{Worker: "paused", Job: "lottery", Token: 1})
	l.leave(entry{Worker: "a", Job: "lottery", Token: 2})
	assert.Empty(t, l.failures)
	l.enter(entry{Worker: "paused", Job: "lottery", Token: 3})
	l.enter(entry{Worker: "b", Job: "lottery", Token: 4})
	assert.Len(t, l.failures, 1, "both hold the lock")
}
