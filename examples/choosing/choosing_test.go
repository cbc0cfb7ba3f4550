package choosing

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T) *locker.Client {
	c, err := locker.Open("redigo", "redis://"+miniredis.RunT(t).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// ledger is a Store.
type ledger struct {
	mu      sync.Mutex
	balance int
	last    locker.Token
}

func (l *ledger) Balance(context.Context, string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.balance, nil
}

func (l *ledger) SetBalance(_ context.Context, _ string, balance int, token locker.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token == 0 || token < l.last {
		return errors.New("out of date")
	}
	l.balance, l.last = balance, token
	return nil
}

func TestMutexes(t *testing.T) {
	c, store := newClient(t), &ledger{balance: 100}
	sent := false
	require.NoError(t, SendReminders(t.Context(), c, func(context.Context) error { sent = true; return nil }))
	assert.True(t, sent)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { assert.NoError(t, Withdraw(t.Context(), c, store, "7", 10)) })
	}
	all.Wait()
	assert.Zero(t, store.balance)
}

func TestReentrant(t *testing.T) {
	store := &ledger{}
	accounts := &Accounts{newClient(t), store}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { assert.NoError(t, accounts.AddWithFee(t.Context(), "7", 10, 1)) })
	}
	all.Wait()
	assert.Equal(t, 90, store.balance)
}

func TestCatalog(t *testing.T) {
	catalog := NewCatalog(newClient(t))
	var mu sync.Mutex
	built := 0
	stale := func(context.Context) bool { mu.Lock(); defer mu.Unlock(); return built == 0 }
	rebuild := func(context.Context) error { mu.Lock(); defer mu.Unlock(); built++; return nil }
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { assert.NoError(t, catalog.Refresh(t.Context(), stale, rebuild)) })
	}
	all.Wait()
	assert.Equal(t, 1, built)
	assert.NoError(t, catalog.Read(t.Context(), func(context.Context) error { return nil }))
}
