package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// servers starts n embedded servers.
func servers(t *testing.T, n int) (all []*miniredis.Miniredis, dsns []string) {
	t.Helper()
	for range n {
		all = append(all, miniredis.RunT(t))
		dsns = append(dsns, "redis://"+all[len(all)-1].Addr())
	}
	return all, dsns
}

// patient leaves a node the time that a busy machine takes. Those that are down refuse at once.
var patient = redlock.Config{Bootstrap: true, NodeTimeout: 5 * time.Second}

func open(t *testing.T, dsns []string, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	client, err := redlock.Open("goredis", dsns, append(opts, patient)...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

func TestWhatMakesNoQuorum(t *testing.T) {
	_, dsns := servers(t, 4)
	for _, n := range []int{0, 1, 2, 4} {
		_, err := redlock.Open("goredis", dsns[:n])
		assert.ErrorIs(t, err, locker.ErrInvalid, n)
		assert.ErrorContains(t, err, fmt.Sprintf("a quorum of %d", n))
	}
	_, err := redlock.Open("goredsi", dsns[:3])
	assert.ErrorIs(t, err, locker.ErrInvalid)
	assert.ErrorContains(t, err, `node 0: locker: invalid argument: unknown driver "goredsi"`)
	_, err = redlock.Open("goredis", append(dsns[:2:2], "redis://:secret@h:port"))
	assert.ErrorContains(t, err, "node 2: ")
	assert.NotContains(t, fmt.Sprintf("%+v", err), "secret")
	_, err = redlock.New([]driver.Connector{nil, nil, nil})
	assert.ErrorIs(t, err, locker.ErrInvalid)
	assert.ErrorContains(t, err, "node 0")
	for _, cfg := range []redlock.Config{{NodeTimeout: -1}, {NodeTimeout: time.Microsecond}, {LongestTTL: -1}, {LongestTTL: time.Millisecond}} {
		_, err = redlock.Open("goredis", dsns[:3], cfg)
		assert.ErrorIs(t, err, locker.ErrInvalid, "%+v", cfg)
	}
}

func TestNoTTLExceedsLongestTTL(t *testing.T) {
	_, dsns := servers(t, 3)
	_, err := redlock.Open("goredis", dsns, redlock.Config{LongestTTL: 10 * time.Second}, locker.TTL(time.Minute))
	assert.ErrorIs(t, err, locker.ErrInvalid)
	client := open(t, dsns)
	_, err = client.Mutex("k", locker.TTL(2*locker.DefaultLongestTTL)).TryLock(t.Context())
	assert.ErrorIs(t, err, locker.ErrInvalid)
	lease, err := client.Mutex("k").TryLock(t.Context())
	require.NoError(t, err)
	assert.ErrorIs(t, lease.Extend(t.Context(), time.Hour), locker.ErrInvalid)
	_, err = lease.Detach(t.Context(), time.Hour)
	assert.ErrorIs(t, err, locker.ErrInvalid)
	assert.NoError(t, lease.Unlock(t.Context()))
}

func TestAMinorityIsNotNeeded(t *testing.T) {
	nodes, dsns := servers(t, 3)
	client := open(t, dsns)
	lease, err := client.Mutex("k", locker.Fenced()).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	nodes[1].Close()
	for _, kind := range []locker.Option{locker.Fenced(), locker.Reentrant(), locker.ForReading(), locker.ForWriting()} {
		lease, err := client.Mutex("k", kind).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	health := client.Nodes()
	require.Len(t, health, 3)
	assert.Equal(t, 1, health[1].Node)
	assert.Error(t, health[1].Err)
	assert.NoError(t, health[0].Err)
	assert.False(t, health[0].Answered.IsZero())
}

func TestWithoutAMajorityTheVotesAreTold(t *testing.T) {
	nodes, dsns := servers(t, 3)
	client, err := redlock.Open("goredis", dsns, patient)
	require.NoError(t, err)
	defer client.Close() // which may not get to know that all is released
	held, err := client.Mutex("held").Lock(t.Context())
	require.NoError(t, err)
	other := open(t, dsns)
	_, err = other.Mutex("held").TryLock(t.Context())
	assert.ErrorIs(t, err, locker.ErrLocked)
	assert.NotErrorIs(t, err, locker.ErrUnavailable)
	require.NoError(t, other.Close())
	require.NoError(t, held.Unlock(t.Context()))

	nodes[0].Close()
	nodes[2].Close()
	_, err = client.Mutex("k").TryLock(t.Context())
	assert.ErrorIs(t, err, locker.ErrUnavailable)
	assert.NotErrorIs(t, err, locker.ErrLocked)
	q, ok := errors.AsType[*locker.QuorumError](err)
	require.True(t, ok, "%v", err)
	require.Len(t, q.Votes, 3)
	assert.Error(t, q.Votes[0].Err)
	assert.Error(t, q.Votes[2].Err)
}

// Applications that take locks do not change.
func TestTheClientIsOneLikeAnyOther(t *testing.T) {
	_, dsns := servers(t, 3)
	client := open(t, dsns)
	var inside error
	err := client.Do(t.Context(), "k", func(ctx context.Context) error {
		_, inside = client.Mutex("k").TryLock(context.Background())
		status, err := client.Inspect(ctx, "k")
		if err == nil && len(status.Holders) != 1 {
			err = fmt.Errorf("%d holders", len(status.Holders))
		}
		return err
	})
	assert.NoError(t, err)
	assert.ErrorIs(t, inside, locker.ErrLocked)

	lease, err := client.Mutex("k").TryLock(t.Context())
	require.NoError(t, err)
	broken, err := client.ForceRelease(t.Context(), "k")
	require.NoError(t, err)
	require.Len(t, broken, 1)
	assert.ErrorIs(t, lease.Unlock(t.Context()), locker.ErrAbsent)

	lease, err = client.Mutex("k").TryLock(t.Context())
	require.NoError(t, err)
	id, err := lease.Detach(t.Context(), time.Minute)
	require.NoError(t, err)
	lease, err = open(t, dsns).Mutex("k").Attach(t.Context(), id)
	require.NoError(t, err)
	assert.NoError(t, lease.Unlock(t.Context()))
}

// start starts embedded servers for an example.
func start(n int) (dsns []string, stop func()) {
	var all []*miniredis.Miniredis
	for range n {
		server, err := miniredis.Run()
		if err != nil {
			panic(err)
		}
		all = append(all, server)
		dsns = append(dsns, "redis://"+server.Addr())
	}
	return dsns, func() {
		for _, server := range all {
			server.Close()
		}
	}
}

func Example() {
	dsns, stop := start(3)
	defer stop()
	client, err := redlock.Open("goredis", dsns, redlock.Config{Bootstrap: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	err = client.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		lease, _ := locker.FromContext(ctx)
		fmt.Println("held by a majority:", lease.Valid())
		return nil
	}, locker.Fenced())
	fmt.Println(err)
	// Output:
	// held by a majority: true
	// <nil>
}

func ExampleNew() {
	addrs, stop := start(5)
	defer stop()
	var connectors []driver.Connector
	for _, addr := range addrs {
		opts, err := redis.ParseURL(addr)
		if err != nil {
			panic(err)
		}
		rdb := redis.NewClient(opts)
		defer rdb.Close()
		connectors = append(connectors, goredis.Wrap(rdb))
	}
	client, err := redlock.New(connectors, redlock.Config{Bootstrap: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	lease, err := client.Mutex("orders:42").Lock(context.Background())
	fmt.Println(err)
	fmt.Println(lease.Unlock(context.Background()))
	fmt.Println(len(client.Nodes()), "nodes")
	// Output:
	// <nil>
	// <nil>
	// 5 nodes
}

func ExampleConfig() {
	cfg := redlock.Config{
		NodeTimeout: 200 * time.Millisecond, // a node that takes longer is not waited for
		LongestTTL:  10 * time.Second,       // so long is a node that was restarted left out
	}
	client, err := redlock.Open("goredis", []string{
		"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379",
	}, cfg, locker.TTL(10*time.Second))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	fmt.Println(len(client.Nodes()), "nodes, none of which was asked yet")
	// Output: 3 nodes, none of which was asked yet
}
