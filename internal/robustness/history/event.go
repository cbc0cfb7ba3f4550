// Package history is what worker processes write down while they use locks and
// faults are injected, and what the checkers read: one JSON line an event, all on
// the one monotonic clock that the processes of a machine share.
//
// An event is on disk before the worker goes on, so that a killed worker loses
// nothing that another could have met.
package history

// A What says what happened.
type What string

// What happens in the life of one operation, in this order. A worker that is killed
// leaves an operation wherever it stands.
const (
	// Asked comes before the call of Lock or TryLock.
	Asked What = "asked"
	// Queued comes when it is certain that who asked stands in the server's queue.
	Queued What = "queued"
	// Granted comes after the call has returned a lease.
	Granted What = "granted"
	// Refused comes after the call has returned that others hold the lock.
	Refused What = "refused"
	// Failed comes after the call has returned any other error.
	Failed What = "failed"
	// Used says that the holder has last found its lease to be valid, by Valid and
	// by the lease's context, at some instant from Since to At.
	Used What = "used"
	// Wrote comes after the holder has written to the fenced resource with its
	// token.
	Wrote What = "wrote"
	// Ended comes when the lease's context has ended without the holder's doing. It
	// is written by whoever learns of it first, which may be late in a process that
	// was stopped.
	Ended What = "ended"
	// Unlocking comes before the call of Unlock.
	Unlocking What = "unlocking"
	// Unlocked comes after it.
	Unlocked What = "unlocked"
	// Detaching comes before the call of Detach, with the TTL for which the server is
	// to keep the lock.
	Detaching What = "detaching"
	// Detached comes after it. Without an error the lease is on the server alone, until
	// it is taken up or its TTL has passed.
	Detached What = "detached"
)

// What happens to the system that is observed.
const (
	// Injected comes before a fault is brought about.
	Injected What = "injected"
	// Healed comes after it was undone.
	Healed What = "healed"
	// Sampled comes after a look at the servers' keys.
	Sampled What = "sampled"
	// Probed comes after a lock was had by somebody who came when all faults were
	// healed; Since is when it was asked for.
	Probed What = "probed"
	// Starved tells that the machine had no time for who only wanted to wake up, from
	// Since to At.
	Starved What = "starved"
)

// An Event is one line of a history.
type Event struct {
	// At is when it happened. What comes before a call has a time from before it,
	// what comes after a call one from after it.
	At Time `json:"at"`
	// Since is the earlier end of the interval in which it happened, where there is one.
	Since Time `json:"since,omitzero"`
	What  What `json:"what"`
	// Worker names the process and the goroutine, and Op counts its operations: both
	// together are one attempt to hold one lock once.
	Worker string `json:"worker,omitempty"`
	Op     int    `json:"op,omitempty"`
	// From is the operation whose lease this one goes on with: a detached one that
	// it takes up, or one for writing that it turns into one for reading.
	From Operation `json:"from,omitzero"`
	// Driver is that of the worker's client.
	Driver string `json:"driver,omitempty"`
	// Name is the lock's, and Mode what it was asked for.
	Name string `json:"name,omitempty"`
	Mode Mode   `json:"mode,omitempty"`
	// Owner is who re-enters: holds of one owner do not exclude each other, whatever
	// their modes. Without one the operation is alone.
	Owner string `json:"owner,omitempty"`
	// Try is true if the lock was asked for by TryLock.
	Try bool `json:"try,omitempty"`
	// TTL is the lease time that was asked for, from Lock or from Detach.
	TTL Time `json:"ttl,omitempty"`
	// Deadline is until when the lease is valid without a renewal.
	Deadline Time `json:"deadline,omitzero"`
	// Token is the lease's fencing token, 0 if it has none.
	Token uint64 `json:"token,omitempty"`
	// Accepted is true if the resource took what was written.
	Accepted bool `json:"accepted,omitempty"`
	// Error is what the call returned or why the lease ended, and Class the kind of it.
	Error string `json:"error,omitempty"`
	Class Class  `json:"class,omitempty"`
	// Fault names what is injected and healed.
	Fault string `json:"fault,omitempty"`
	// Keys is how many keys were sampled, and Immortal lists those without a TTL.
	Keys     int      `json:"keys,omitempty"`
	Immortal []string `json:"immortal,omitempty"`
}

// An Operation is what its worker calls it.
type Operation struct {
	Worker string `json:"worker"`
	Op     int    `json:"op"`
}

// A Mode is what a lock is asked for.
type Mode string

// The modes of locks. All users of one name agree whether it is a plain, a fenced, a
// reentrant, or a read-write lock.
const (
	Plain     Mode = "plain"
	Fenced    Mode = "fenced"
	Reentrant Mode = "reentrant"
	Read      Mode = "read"
	Write     Mode = "write"
)

// Excludes reports whether a hold in mode m and one in mode o of the same lock may
// not be at the same time.
func (m Mode) Excludes(o Mode) bool { return m != Read || o != Read }

// A Class is the kind of an error, in the words that the lock's documentation has for it.
type Class string

// The classes of errors.
const (
	Lost        Class = "lost"        // the lease is lost
	Unknown     Class = "unknown"     // whether it was done is not known
	Unavailable Class = "unavailable" // the server could not be asked
	Canceled    Class = "canceled"    // the caller's context ended
	Denied      Class = "denied"      // the server refuses for good: permission, memory, foreign key
	Other       Class = "other"
)
