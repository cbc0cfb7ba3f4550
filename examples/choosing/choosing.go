// Package choosing is the code of docs/choosing-a-lock.md: one use of each kind of
// lock.
package choosing

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/rwlock"
)

// SendReminders sends the reminders that are due and not sent yet, which send finds out
// under the lock: who comes later finds it free again. Should the lock be lost, somebody
// may get two.
func SendReminders(ctx context.Context, client *locker.Client, send func(ctx context.Context) error) error {
	err := client.Do(ctx, "reminders", send)
	return err
}

// A Store keeps balances. It refuses a token that is smaller than the largest that it was
// shown, by who read a balance in order to write another, or by who wrote.
type Store interface {
	Balance(ctx context.Context, account string, token locker.Token) (int, error)
	SetBalance(ctx context.Context, account string, balance int, token locker.Token) error
}

// Withdraw reads, thinks and writes.
func Withdraw(ctx context.Context, client *locker.Client, store Store, account string, amount int) error {
	return client.Do(ctx, "account:"+account, func(ctx context.Context) error {
		lease, _ := locker.FromContext(ctx)
		balance, err := store.Balance(ctx, account, lease.Token())
		if err != nil {
			return err
		}
		return store.SetBalance(ctx, account, balance-amount, lease.Token())
	}, locker.Fenced())
}

// Accounts are accounts whose operations call each other.
type Accounts struct {
	Client *locker.Client
	Store  Store
}

func (a *Accounts) lock(account string) *locker.Mutex {
	return a.Client.Mutex("account:"+account, locker.Reentrant(), locker.Fenced())
}

// Add adds to a balance.
func (a *Accounts) Add(ctx context.Context, account string, amount int) error {
	return a.lock(account).Do(ctx, func(ctx context.Context) error {
		lease, _ := locker.FromContext(ctx)
		balance, err := a.Store.Balance(ctx, account, lease.Token())
		if err != nil {
			return err
		}
		return a.Store.SetBalance(ctx, account, balance+amount, lease.Token())
	})
}

// AddWithFee adds to a balance, and takes a fee in one step with it.
func (a *Accounts) AddWithFee(ctx context.Context, account string, amount, fee int) error {
	return a.lock(account).Do(ctx, func(ctx context.Context) error {
		if err := a.Add(ctx, account, amount); err != nil { // takes the lock again
			return err
		}
		return a.Add(ctx, account, -fee)
	})
}

// A Catalog is read often and rebuilt now and then.
type Catalog struct{ lock *rwlock.Lock }

// NewCatalog returns the catalogue. A reader that crashes delays the next rebuilding
// by ten seconds.
func NewCatalog(client *locker.Client) *Catalog {
	return &Catalog{rwlock.New(client, "catalog", locker.ReadTTL(10*time.Second))}
}

// Read runs list together with other readers.
func (c *Catalog) Read(ctx context.Context, list func(ctx context.Context) error) error {
	return c.lock.RDo(ctx, list)
}

// Refresh rebuilds the catalogue if it is stale, by one of those who find it so.
func (c *Catalog) Refresh(ctx context.Context, stale func(ctx context.Context) bool, rebuild func(ctx context.Context) error) error {
	return c.lock.RDo(ctx, func(ctx context.Context) error {
		if !stale(ctx) {
			return nil
		}
		reading, _ := locker.FromContext(ctx)
		writing, err := reading.Upgrade(ctx)
		if errors.Is(err, locker.ErrDeadlock) {
			return nil // another reader is about to do it
		}
		if err != nil {
			return err
		}
		return writing.Do(ctx, rebuild)
	})
}
