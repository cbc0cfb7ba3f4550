package rig_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// connect returns a client of a target that has been sent as workers get it.
func connect(t *testing.T, sent rig.Target) *locker.Client {
	t.Helper()
	text, err := json.Marshal(sent)
	require.NoError(t, err)
	var target rig.Target
	require.NoError(t, json.Unmarshal(text, &target))
	all, err := target.Connectors()
	require.NoError(t, err)
	var client *locker.Client
	if target.Kind == rig.Quorum {
		client, err = redlock.New(all, redlock.Config{Bootstrap: true, NodeTimeout: 10 * time.Second})
	} else {
		client, err = locker.New(all[0])
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestLocksWorkOnEveryKind(t *testing.T) {
	t.Parallel()
	servers := map[rig.Kind]int{rig.Single: 1, rig.Quorum: 5, rig.Sentinel: 2, rig.Cluster: 6}
	for _, kind := range rig.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := rig.Start(t, kind, rig.Needs{})
			assert.Len(t, r.Servers, servers[kind])
			drivers := []string{"goredis"}
			if kind == rig.Quorum {
				drivers = []string{"goredis", "rueidis", "redigo"}
			}
			target, err := r.Target("w", drivers...)
			require.NoError(t, err)
			assert.ElementsMatch(t, drivers, target.Drivers())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			lease, err := connect(t, target).Mutex("k").Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(ctx))
			require.NoError(t, r.Release("w"))
		})
	}
}

func TestEachWorkerHasLinesOfItsOwn(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Single, rig.Needs{Standby: true})
	require.Len(t, r.Servers, 2)
	a, err := r.Target("a", "goredis")
	require.NoError(t, err)
	b, err := r.Target("b", "goredis")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, w := range r.Lines("a") {
		w.Refuse(true)
	}
	_, err = connect(t, a).Mutex("k").TryLock(ctx)
	assert.ErrorIs(t, err, locker.ErrUnavailable)
	lease, err := connect(t, b).Mutex("k").TryLock(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(ctx))

	_, err = r.Target("b", "goredis")
	assert.ErrorContains(t, err, "already")
	_, err = r.Target("c", "goredis", "rueidis")
	assert.ErrorContains(t, err, "quorum")
	_, err = r.Target("c")
	assert.ErrorContains(t, err, "no driver")
	require.NoError(t, r.Release("b"))
	assert.Empty(t, r.Lines("b"))
}

// Where servers and Sentinels say themselves where they are, workers do not go there past
// their lines.
func TestLinesToServersThatSayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for kind, drivers := range map[rig.Kind][]string{
		rig.Sentinel: {"goredis", "rueidis", "redigo"}, rig.Cluster: {"goredis", "rueidis"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := rig.Start(t, kind, rig.Needs{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, driver := range drivers {
				target, err := r.Target(driver, driver)
				require.NoError(t, err)
				require.Len(t, r.Lines(driver), len(r.Servers))
				m := connect(t, target).Mutex(driver)
				lease, err := m.Lock(ctx)
				require.NoError(t, err, driver)
				require.NoError(t, lease.Unlock(ctx))
				for _, w := range r.Lines(driver) {
					w.Refuse(true)
					w.KillAll()
				}
				_, err = m.TryLock(ctx)
				assert.ErrorIs(t, err, locker.ErrUnavailable, driver)
				for _, w := range r.Lines(driver) {
					w.Refuse(false)
				}
				assert.Eventually(t, func() bool {
					lease, err := m.TryLock(ctx)
					return err == nil && lease.Unlock(ctx) == nil
				}, time.Minute, 10*time.Millisecond, driver)
			}
		})
	}
}

// A machine that is busy is no reason for a failover: it would break exclusion, and no
// fault would explain it.
func TestNoFailoverThatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	for kind, replica := range map[rig.Kind]int{rig.Sentinel: 1, rig.Cluster: 3} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			r := rig.Start(t, kind, rig.Needs{})
			isMaster := func() bool { return r.Servers[replica].InfoSays("replication", "role:master") == nil }
			r.Servers[0].Pause()
			assert.Never(t, isMaster, 3*time.Second, 100*time.Millisecond)
			r.Servers[0].Resume()
			require.NoError(t, r.AllowFailover(true))
			r.Servers[0].Pause()
			assert.Eventually(t, isMaster, time.Minute, 10*time.Millisecond)
		})
	}
}
