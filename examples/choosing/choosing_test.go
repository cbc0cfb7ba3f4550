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

func (l *ledger) Balance(_ context.Context, _ string, token locker.Token) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(token); err != nil {
		return 0, err
	}
	return l.balance, nil
}

func (l *ledger) SetBalance(_ context.Context, _ string, balance int, token locker.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admit(token); err != nil {
		return err
	}
	l.balance = balance
	return nil
}

var errOutdated = errors.New("out of date")

func (l *ledger) admit(token locker.Token) error {
	if token == 0 || token < l.last {
		return errOutdated
	}
	l.last = token
	return nil
}

// pausing is a ledger at which who has read is paused.
type pausing struct {
	*ledger
	read func()
}

func (p pausing) Balance(ctx context.Context, account string, token locker.Token) (int, error) {
	balance, err := p.ledger.Balance(ctx, account, token)
	p.read()
	return balance, err
}

// Who lost the lock and does not know it writes after its successor has read: were it let, the
// successor would take that back.
func TestALateWriteDoesNotSlipInBetweenReadingAndWriting(t *testing.T) {
	c, store := newClient(t), &ledger{balance: 100}
	first := make(chan error, 1)
	goOn := make(chan struct{})
	reads := make(chan struct{})
	go func() {
		first <- Withdraw(t.Context(), c, pausing{store, func() { close(reads); <-goOn }}, "7", 10)
	}()
	<-reads
	_, err := c.ForceRelease(t.Context(), "account:7")
	require.NoError(t, err)
	require.NoError(t, Withdraw(t.Context(), c, pausing{store, func() {
		close(goOn)
		assert.ErrorIs(t, <-first, errOutdated)
	}}, "7", 20))
	assert.Equal(t, 80, store.balance)
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
