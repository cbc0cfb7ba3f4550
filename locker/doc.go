// Package locker provides distributed locks on Redis and Valkey, through whichever
// client an application already uses. It is written for the application developer;
// authors of drivers read package
// [github.com/golocker/golocker/locker/driver] next.
//
// # Taking a lock
//
// A [Client] comes from a driver: it is made around an existing Redis client, or opened by
// name.
//
//	client, err := locker.New(goredis.Wrap(rdb))
//	client, err := locker.Open("goredis", "redis://localhost:6379/0")
//	defer client.Close()
//
// [Client.Do] is the form that is hardest to misuse: it waits for the lock, runs the work under
// a context that ends when the lock is lost, and releases the lock.
//
//	err = client.Do(ctx, "orders:42", func(ctx context.Context) error {
//		return work(ctx)
//	})
//
// A program that needs more makes a [Mutex], which only describes a lock, and gets a [Lease]
// from it, which is the ownership.
//
//	m := client.Mutex("orders:42", locker.TTL(30*time.Second), locker.Fenced())
//	lease, err := m.Lock(ctx)
//	defer lease.Unlock(context.WithoutCancel(ctx))
//
// [Lease.Context] ends with the lease and knows nothing else; [Lease.Do] runs work under a
// context that is derived from the caller's as well. Work that should be skipped where somebody
// else is at it:
//
//	lease, err := m.TryLock(ctx)
//	if errors.Is(err, locker.ErrLocked) {
//		return nil
//	}
//	if err != nil {
//		return err
//	}
//	return lease.Do(ctx, work)
//
// # Kinds of locks
//
// A mutex is for one lease at a time. With [Reentrant] its [Owner] can take it again
// immediately: the owner is whoever has the context of a lease, or is named by [WithOwner] or
// [As]. A read-write lock has any number of readers or one writer; package
// [github.com/golocker/golocker/rwlock] puts its two sides together, and [Lease.Upgrade] and
// [Lease.Downgrade] lead from one to the other. A key that holds one kind of lock is
// [ErrForeign] to the other kinds.
//
// Locks are granted in the order of arrival, across processes. The release hands the lock to
// the next waiter; readers that wait next to each other get it together.
//
// # What is promised
//
// A lock is a lease: the server keeps it for a TTL, and a watchdog renews it every
// third of that until Unlock. While the server keeps its data and clocks run at
// about the same rate, no two leases that exclude each other overlap between the
// return of Lock and the end of [Lease.Context]: a holder that cannot renew stops
// believing in its lease before the server lets the next one in. "Cannot tell"
// counts as "not held".
//
// What no lock on one server can promise is exclusion when the server loses its
// data (a failover with lost replication, FLUSHALL, eviction), or when a process
// is paused between asking [Lease.Valid] and acting. For that there are fencing
// tokens, see [Fenced] and [Token].
//
// # Errors
//
// "It is locked" ([ErrLocked]) and "the server cannot be reached" ([ErrUnavailable]) are never
// confused, and a wait that ends says both what ended it and why the lock was not acquired
// ([WaitError]). Where the outcome of a request was never learned, the error is [ErrUnknown].
// Use errors.Is and errors.AsType.
//
// What can only be a mistake in the program panics instead: a nil context given to any
// function, as elsewhere in Go, and a method called on a nil [Client], [Mutex] or [Lease],
// which is what a function returns beside an error that was not checked. (A call that is wrong
// in another way as well may return [ErrInvalid].) A call that panics takes no lock and loses
// none, except that [Lease.Do] gives its own up.
//
// # Watching
//
// A client logs nothing and counts nothing by itself. [Logger] has it log losses, failing
// renewals and dangerous settings of the server; [Observe] gives every event to a program, and
// packages lockotel and lockprom turn events into traces and metrics. [Client.Snapshot] lists
// what this process holds and waits for; [Client.Inspect] asks the server.
//
// # Names and keys
//
// The name given to [Client.Mutex], after the client's [Prefix], is the server's key, and a
// plain mutex is held by what SET key value NX PX writes: it excludes other libraries and
// hand-written locks on that key. A name may hold any bytes, braces too; in a Cluster all keys
// of a lock share the slot of its name.
package locker
