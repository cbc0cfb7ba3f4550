// Package rwlock provides read-write locks: any number of readers hold one together, a writer
// holds it alone.
//
//	rw := rwlock.New(client, "catalog")
//
//	err := rw.RDo(ctx, func(ctx context.Context) error { return list(ctx) })
//	err := rw.Do(ctx, func(ctx context.Context) error { return rebuild(ctx) })
//
// It puts together the two sides that package locker has as its options ForReading and
// ForWriting; leases, errors, renewal and loss are those of package locker.
//
// # What it promises
//
// Every reader and the writer has its own lease with its own deadline on the
// server's clock. A reader that crashes delays a writer by what is left of that
// reader's lease, whoever else renews.
//
// Locks are granted in the order of arrival, across processes: a reader that comes
// while a writer waits stands behind it, so that a steady stream of readers does not
// keep a writer out; readers that stand next to each other are let in together.
//
// An owner re-enters: a reader reads again, a writer writes again or reads, without
// waiting for anybody. The owner is that of the context (locker.WithOwner), of the
// option locker.As, or of the lease that the context carries; a call with none of
// these is made by an owner of its own. A reader becomes a writer by
// [locker.Lease.Upgrade], a writer a reader by [locker.Lease.Downgrade].
//
// With locker.Fenced each writer gets a larger fencing token than all writers before it, and
// readers get the token of the last writer, so that they can tell what they have read; a
// reader's token is 0 where none is known, see [locker.Lease.Token].
package rwlock

import (
	"context"

	"github.com/golocker/golocker/locker"
)

// A Lock describes a read-write lock: its name and options. It holds no ownership,
// is immutable and may be shared, like a [locker.Mutex]. It comes from [New]; the zero Lock is
// of no use.
type Lock struct {
	read, write *locker.Mutex
}

// New returns the lock with the given name on the deployment of client. The options are those
// of [locker.Client.Mutex]; [locker.ReadTTL] sets the lease time of readers where it should
// differ. [locker.Reentrant], which makes another kind of lock, is reported as
// [locker.ErrInvalid] by every method; owners of a read-write lock re-enter without it.
//
// New panics if client is nil, which is a mistake in the program.
func New(client *locker.Client, name string, opts ...locker.Option) *Lock {
	if client == nil {
		panic("rwlock: New with a nil Client; give it what locker.New or locker.Open has returned, once that is checked for an error")
	}
	side := func(mode locker.Option) *locker.Mutex {
		return client.Mutex(name, append(opts[:len(opts):len(opts)], mode)...)
	}
	return &Lock{read: side(locker.ForReading()), write: side(locker.ForWriting())}
}

// Name returns the name as it was given to [New].
func (l *Lock) Name() string { return l.write.Name() }

// RLock takes the lock for reading. It waits while a writer holds it, and while a writer that
// came before is waiting. Errors are those of [locker.Mutex.Lock].
func (l *Lock) RLock(ctx context.Context) (*locker.Lease, error) { return l.read.Lock(ctx) }

// TryRLock takes the lock for reading if that needs no waiting, and returns a
// [*locker.LockedError] otherwise, also where only a waiting writer is in the way.
func (l *Lock) TryRLock(ctx context.Context) (*locker.Lease, error) { return l.read.TryLock(ctx) }

// Lock takes the lock for writing. It waits while others hold it, and for those who
// came before. An owner that reads and calls Lock upgrades, see
// [locker.Lease.Upgrade].
func (l *Lock) Lock(ctx context.Context) (*locker.Lease, error) { return l.write.Lock(ctx) }

// TryLock takes the lock for writing if that needs no waiting, and returns a
// [*locker.LockedError] otherwise. An owner that reads upgrades if nobody else reads, see
// [locker.Lease.TryUpgrade].
func (l *Lock) TryLock(ctx context.Context) (*locker.Lease, error) { return l.write.TryLock(ctx) }

// RDo runs work while it holds the lock for reading, see [locker.Mutex.Do].
func (l *Lock) RDo(ctx context.Context, work func(ctx context.Context) error) error {
	return l.read.Do(ctx, work)
}

// Do runs work while it holds the lock for writing, see [locker.Mutex.Do].
func (l *Lock) Do(ctx context.Context, work func(ctx context.Context) error) error {
	return l.write.Do(ctx, work)
}

// RAttach takes up a lease for reading that [locker.Lease.Detach] left on the server,
// see [locker.Mutex.Attach].
func (l *Lock) RAttach(ctx context.Context, id string) (*locker.Lease, error) {
	return l.read.Attach(ctx, id)
}

// Attach takes up a lease for writing that [locker.Lease.Detach] left on the server,
// see [locker.Mutex.Attach].
func (l *Lock) Attach(ctx context.Context, id string) (*locker.Lease, error) {
	return l.write.Attach(ctx, id)
}
