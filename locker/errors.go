package locker

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// Sentinel errors, for errors.Is. Where there is more to know, a type of the same
// chain tells it: [*LockedError], [*WaitError], [*LostError], [*ForeignError],
// [*PermissionError] and the [*driver.ServerError] of a server that said no.
var (
	// ErrLocked: somebody else holds the lock. The chain has a *LockedError.
	ErrLocked = errors.New("locker: locked")

	// ErrNotHeld: this lease no longer holds the lock. Every such error is also
	// ErrAbsent or ErrTaken.
	ErrNotHeld = errors.New("locker: not held")
	// ErrAbsent: the lease ran out (or was deleted) and nobody holds the lock.
	ErrAbsent = fmt.Errorf("%w: the lease is gone from the server", ErrNotHeld)
	// ErrTaken: the lease ran out (or was broken), and now somebody else holds the key, or the
	// owner of a reentrant lock does by another hold.
	ErrTaken = fmt.Errorf("%w: the lock is somebody else's", ErrNotHeld)

	// ErrLost is the cause of a lease context that ended because the lock is,
	// or may be, no longer held. The cause is a *LostError.
	ErrLost = errors.New("locker: lock lost")
	// ErrMaxHold: the lease reached the time set by [MaxHold]. It is an ErrLost.
	ErrMaxHold = fmt.Errorf("%w: maximum hold reached", ErrLost)

	// ErrReleased is the cause of a lease context that ended because the holder
	// gave the lock up, by Unlock or Detach, and the error of calls after that.
	ErrReleased = errors.New("locker: lease released")

	// ErrWaitTimeout: the time set by [WaitTimeout] passed.
	ErrWaitTimeout = errors.New("locker: wait timeout")

	// ErrTooManyWaiters: the lock was not free, and as many calls of the client as [MaxWaiters]
	// allows were waiting already.
	ErrTooManyWaiters = errors.New("locker: too many calls wait for locks already")

	// ErrUnavailable: the server could not be reached, did not answer in time, or answered that
	// it cannot serve at present. It says nothing about who holds the lock.
	ErrUnavailable = errors.New("locker: server unavailable")

	// ErrUnknown: a request was sent and its outcome never learned. After an
	// Unlock with this error the lock is free within its TTL at the latest.
	ErrUnknown = errors.New("locker: outcome unknown")

	// ErrForeign: the key holds a lock of another kind, or something that is no lock of this
	// library. Such a key is never waited for, nor deleted, whether it expires or not: that
	// would hide a mistake. But a mutex takes a string that expires to be a lock of another
	// library, made by SET NX, and waits for it.
	ErrForeign = errors.New("locker: foreign value at the lock's key")

	// ErrPermission: the server's ACL forbids what a lock needs. The chain has a
	// *PermissionError, which says what to grant.
	ErrPermission = errors.New("locker: no permission")

	// ErrDeadlock: to wait for the lock would be to wait for oneself. The chain has a
	// *DeadlockError. A wait by way of others is not detected: a reader, whose owner is not
	// that of the lease its context carries, waits behind a writer that waits for that lease. A
	// context does not tell who waits for the caller: where nobody does, as in the background,
	// [WithoutLease] says so.
	ErrDeadlock = errors.New("locker: deadlock")

	// ErrInvalid: an argument or option cannot be used. Nothing was sent, except that
	// [Lease.Do] gives its lease up all the same. ErrInvalid is also what a node of a Cluster
	// that was given as a server of its own gives, where it is asked for a lock that other
	// nodes have.
	ErrInvalid = errors.New("locker: invalid argument")

	// ErrClosed: the client is closed, by [Client.Close] or because the application's own
	// client, which it wraps, was closed. No call on it will succeed any more: make another,
	// and close a client only when nothing uses it.
	ErrClosed = errors.New("locker: client closed (make another; close a client when nothing uses it)")
)

func invalid(problem string) error {
	return fmt.Errorf("%w: %s", ErrInvalid, problem)
}

// A LockedError says who holds a lock that could not be acquired. It matches ErrLocked.
type LockedError struct {
	Name   string // as given to [Client.Mutex]
	Holder Holder // one of those who hold it, as far as the server knows
	by     string // the fingerprint of the holder's record, or the owner of its hold, to tell holders apart
	healed bool   // its record was given back its TTL
}

func (e *LockedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "locker: %q is locked", e.Name)
	switch {
	case e.Holder.Foreign:
		b.WriteString(" by a value that is not of this library")
	case e.Holder.Label != "":
		fmt.Fprintf(&b, " by %q", e.Holder.Label)
	}
	if e.Holder.Remaining > 0 {
		fmt.Fprintf(&b, " for %v more unless renewed", e.Holder.Remaining)
	}
	return b.String()
}

// Is reports whether target is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// A WaitError says that a wait for a lock ended without it: it tells both what ended the wait
// and why the lock was not acquired until then. errors.Is and errors.AsType find both.
type WaitError struct {
	Name string // as given to [Client.Mutex]
	// Cause is what ended the wait: the cause of the context, [ErrWaitTimeout],
	// [ErrClosed], or [ErrTooManyWaiters], which ends it before it begins.
	Cause error
	// Reason is what the last attempt said: a *LockedError, or an ErrUnavailable. It is an
	// ErrUnavailable also where a deadline or the WaitTimeout passed before there was any
	// answer. It is nil if nobody was asked, or if the caller canceled the wait before there
	// was an answer.
	Reason error

	ctxErr error // ctx.Err() where Cause is something else
	waited time.Duration
}

func (e *WaitError) Error() string {
	s := fmt.Sprintf("%sgave up waiting for %q after %v: %s", textPrefix, e.Name, e.waited.Round(time.Millisecond), bare(e.Cause))
	if e.Reason != nil {
		s += " (" + bare(e.Reason) + ")"
	}
	return s
}

// Unwrap returns the cause, the context's error and the reason.
func (e *WaitError) Unwrap() []error {
	errs := []error{e.Cause}
	if e.ctxErr != nil {
		errs = append(errs, e.ctxErr)
	}
	if e.Reason != nil {
		errs = append(errs, e.Reason)
	}
	return errs
}

// A LostError is the cause with which a lease's context ends when the lock is
// lost, or may be. It matches ErrLost.
type LostError struct {
	Name string // as given to [Client.Mutex]
	// Reason is ErrAbsent or ErrTaken where the server said so, ErrMaxHold,
	// ErrClosed, or nil where the lease's deadline passed without a renewal.
	Reason error
	// LastErr is why the last renewal failed, if one did.
	LastErr error
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("locker: lock %q lost: ", e.Name)
	switch {
	case e.Reason != nil:
		s += strings.TrimPrefix(bare(e.Reason), bare(ErrLost)+": ")
	default:
		s += "its deadline passed"
	}
	if e.LastErr != nil {
		s += " (last renewal: " + bare(e.LastErr) + ")"
	}
	return s
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the reason and the last renewal's error.
func (e *LostError) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Reason, e.LastErr} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// A DeadlockError says that a lock cannot be waited for. It matches ErrDeadlock.
type DeadlockError struct {
	Name string // as given to [Client.Mutex]
	// Nested tells that the context carries a lease of this lock that the new one would have to
	// wait for: give that lease up first, use [Reentrant] if the calls are nested, or
	// [WithoutLease] if the holder does not wait for this call. If Nested is false, the caller
	// is a reader that wants to write, and another reader is already waiting to do the same:
	// each would wait for the other to end reading.
	Nested bool
}

func (e *DeadlockError) Error() string {
	if e.Nested {
		return fmt.Sprintf("%v: %q is held under this very context, by another owner or a lock that is not reentrant; give the lease up before, or use Reentrant where calls are nested; work in the background that the holder does not wait for is to have a context from WithoutLease", ErrDeadlock, e.Name)
	}
	return fmt.Sprintf("%v: another reader of %q waits to become its writer; give the read lease up, then lock for writing", ErrDeadlock, e.Name)
}

// Is reports whether target is ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// transientCodes are error replies of a server that may serve again soon and has
// not executed the command.
var transientCodes = map[string]bool{
	"BUSY": true, "CLUSTERDOWN": true, "LOADING": true, "MASTERDOWN": true, "MISCONF": true,
	"MOVED": true, "ASK": true, "NOREPLICAS": true, "READONLY": true, "TRYAGAIN": true,
}

// transient tells whether a request that failed with err may succeed later
// without anybody changing anything about the request.
func transient(err error) bool {
	for _, final := range []error{ErrClosed, driver.ErrClosed, driver.ErrUnsupported, ErrInvalid} {
		if errors.Is(err, final) {
			return false
		}
	}
	if reply, ok := errors.AsType[*driver.ServerError](err); ok {
		return transientCodes[reply.Code] || driver.OutcomeOf(reply) == driver.OutcomeUnknown || // of a proxy
			strings.Contains(reply.Message, "max number of clients") // "+ cluster connections" in a Cluster
	}
	return true
}

var errNoConnection = fmt.Errorf("%w: its connection was closed", ErrClosed)

// noConnection reports whether err comes from a closed client, be it this one or the
// application's own.
func noConnection(err error) bool {
	return errors.Is(err, ErrClosed) || errors.Is(err, driver.ErrClosed)
}

// requestError puts a driver's error of a request about a lock into the terms of this
// package.
func requestError(name string, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrClosed), errors.Is(err, ErrUnavailable):
		return err
	case errors.Is(err, driver.ErrClosed):
		return errNoConnection
	case transient(err):
		return &failedError{text: ErrUnavailable.Error() + ": " + bare(err), reasons: []error{ErrUnavailable, err}}
	case errors.Is(err, ErrInvalid): // no server has said so
		return err
	case errors.Is(err, driver.ErrUnsupported):
		return fmt.Errorf("locker: %w", err)
	}
	return cmp.Or(refusal(name, err), fmt.Errorf("locker: the server refused: %w", err))
}

// refusal returns what the server said where that is about more than one request: a
// permission or a key that has to be put right. Otherwise it returns nil.
func refusal(name string, err error) error {
	if err = forbidden(err); errors.Is(err, ErrPermission) {
		return err
	}
	if foreign, ok := foreignReply(name, err); ok {
		return foreign
	}
	return nil
}
