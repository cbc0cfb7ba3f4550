// Package testinglocks is the code of docs/testing.md: something that uses locks, and
// its tests.
package testinglocks

import (
	"context"
	"errors"

	"github.com/golocker/golocker/locker"
)

// An Importer brings rows from one place to another, on one host at a time.
type Importer struct {
	Locks *locker.Client
	Fetch func(ctx context.Context) ([]string, error)
	Store func(ctx context.Context, rows []string, token locker.Token) error
}

// ErrBusy tells that another host is importing.
var ErrBusy = errors.New("importer: another host is importing")

// Run imports once.
func (i *Importer) Run(ctx context.Context) error {
	lease, err := i.Locks.Mutex("import", locker.Fenced()).TryLock(ctx)
	if errors.Is(err, locker.ErrLocked) {
		return ErrBusy
	}
	if err != nil {
		return err
	}
	return lease.Do(ctx, func(ctx context.Context) error {
		rows, err := i.Fetch(ctx)
		if err != nil {
			return err
		}
		return i.Store(ctx, rows, lease.Token())
	})
}
