package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/examples/internal/demotest"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

func TestMain(m *testing.M) {
	program.PlayPart()
	os.Exit(m.Run())
}

func TestLeader(t *testing.T) {
	demotest.Run(t, program, "redigo", `follows`, `hands over`, `crashes`, `kept: +3 terms`)
}

// A leader that has lost the lead since the server is away asks at once who leads now.
func TestACandidateWaitsForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	server := servertest.Single(t)
	client, err := locker.Open("goredis", "redis://"+server.Addr, locker.AttemptTimeout(3*time.Second), locker.Observe(locker.Observer{
		LockEnd: func(_ context.Context, e locker.LockEnd) {
			if e.Op == "try" && e.Outcome() == "unavailable" {
				server.Resume()
			}
		},
	}))
	require.NoError(t, err)
	defer client.Close()
	election := client.Mutex("election")
	require.NoError(t, election.Do(t.Context(), func(context.Context) error { return nil }))
	server.Pause()
	lease, err := follow(t.Context(), election, t.Logf)
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
}

// What looks at the journal must be able to find a violation.
func TestCheck(t *testing.T) {
	for text, lines := range map[string][]string{
		"an old leader writes":   {"1 elected", "2 elected", "1 step 1"},
		"two leaders, one token": {"1 elected", "1 elected"},
		"nonsense":               {"1 elected", "x"},
	} {
		_, ordered := check(lines)
		assert.False(t, ordered, text)
	}
	elections, ordered := check([]string{"1 elected", "1 step 1", "3 elected", "3 step 1"})
	assert.True(t, ordered)
	assert.Equal(t, 2, elections)
}
