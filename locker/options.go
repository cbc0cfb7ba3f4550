package locker

import (
	"fmt"
	"time"
)

// Defaults and limits of the options.
const (
	// DefaultTTL is the lease time of a lock unless [TTL] says otherwise.
	DefaultTTL = 30 * time.Second
	// MinTTL is the shortest lease time. Below it, the margin that covers late
	// timers would eat up the lease.
	MinTTL = 200 * time.Millisecond
	// MaxTTL is the longest lease time.
	MaxTTL = 366 * 24 * time.Hour
	// DefaultAttemptTimeout bounds one attempt unless [AttemptTimeout] says
	// otherwise.
	DefaultAttemptTimeout = 2 * time.Second
	// DefaultMaxWaiters is how many calls of a client may wait at a time unless
	// [MaxWaiters] says otherwise.
	DefaultMaxWaiters = 100_000
)

const (
	maxLabel    = 256
	maxMetadata = 4096
)

// An Option is a setting of a lock. Given to [Client.Mutex] or [Client.Do] it applies to that
// lock, given to [New] or [Open] to all locks of the client. Where an option is given to both,
// the lock's value counts. A value that cannot be used is reported as [ErrInvalid]: by New or
// Open, or by every method that would take the lock. [Reentrant] cannot be given together with
// [ForReading] or [ForWriting] to the same lock or client; of the latter two the last one
// counts.
type Option interface {
	ClientOption
	applyLock(*lockConfig)
}

// A ClientOption is a setting of a client, for [New], [Open] and [NewQuorum]. They report a
// value that cannot be used as [ErrInvalid].
type ClientOption interface {
	applyClient(*clientConfig)
}

type lockOption func(*lockConfig)

func (o lockOption) applyLock(c *lockConfig)     { o(c) }
func (o lockOption) applyClient(c *clientConfig) { o(&c.lock) }

type clientOption func(*clientConfig)

func (o clientOption) applyClient(c *clientConfig) { o(c) }

type clientConfig struct {
	quorum     *QuorumConfig
	prefix     string
	label      string
	maxWaiters int
	lock       lockConfig
	observers  []Observer
}

type lockConfig struct {
	ttl            time.Duration
	waitTimeout    time.Duration // 0: only ctx bounds the wait
	attemptTimeout time.Duration
	retry          RetryPolicy // nil: listening or polling
	renew          bool
	maxHold        time.Duration // 0: none
	fenced         bool
	unfair         bool
	metadata       string
	mode           mode
	chosen         string        // the option of this list that has set the mode
	readTTL        time.Duration // of a reader, if it differs
	owner          Owner
	problem        error // the first option that is impossible
}

func (c *lockConfig) reject(problem string) {
	if c.problem == nil {
		c.problem = invalid(problem)
	}
}

// choose sets the kind of the lock, and how it is taken. Options of one list must agree on
// the kind: that the last of them counts would hide a mistake.
func (c *lockConfig) choose(option string, to mode) {
	if c.chosen != "" && (c.mode == modeReentrant) != (to == modeReentrant) {
		c.reject(fmt.Sprintf("%s and %s make two kinds of lock; leave one out (owners of a read-write lock re-enter without Reentrant)", c.chosen, option))
	}
	c.mode, c.chosen = to, option
}

// TTL sets the lease time: how long the server keeps the lock after the last
// renewal, and so how long a crashed holder delays the others. It is cut to whole
// milliseconds and must be from [MinTTL] to [MaxTTL]; the default is [DefaultTTL], or the LongestTTL of a quorum
// where that is less.
//
// The holder stops believing in its lease a little before the server does: after
// TTL − 1 % − 2 ms − max(TTL/20, 100 ms) from the sending of the last successful
// request.
func TTL(d time.Duration) Option {
	return lockOption(func(c *lockConfig) {
		if d < MinTTL || d > MaxTTL {
			c.reject(fmt.Sprintf("a TTL of %v; use one from %v to %v", d, MinTTL, MaxTTL))
			return
		}
		c.ttl = d.Truncate(time.Millisecond)
	})
}

// ReadTTL sets the lease time of readers of a read-write lock, where it should differ from that
// of writers. It has the limits of [TTL].
func ReadTTL(d time.Duration) Option {
	return lockOption(func(c *lockConfig) {
		if d < MinTTL || d > MaxTTL {
			c.reject(fmt.Sprintf("a ReadTTL of %v; use one from %v to %v", d, MinTTL, MaxTTL))
			return
		}
		c.readTTL = d.Truncate(time.Millisecond)
	})
}

// Reentrant makes the lock one that its [Owner] can take again while holding it. Each Lock
// makes a hold of its own, with its own deadline; the lock is free when the last one is
// unlocked. An owner that holds the lock on this client can take it again without asking the
// server, while at least half of the TTL is left. Goroutines that share an owner, such as those
// with the context of one [Mutex.Do], do not exclude each other; a goroutine that should be
// kept out gets its context from [WithoutLease]. Where several of them take a [Fenced] lock at
// the same time, none of them holding it before, each may have a token of its own.
//
// All users of the lock must agree on Reentrant: to others the key holds another kind of lock,
// see [ErrForeign]. Without it, locking the lock again on the same client under a context that
// carries its lease gives [ErrDeadlock].
func Reentrant() Option {
	return lockOption(func(c *lockConfig) { c.choose("Reentrant", modeReentrant) })
}

// ForReading makes the lock the reading side of a read-write lock, which any number of
// owners hold together. Package rwlock puts both sides together.
func ForReading() Option {
	return lockOption(func(c *lockConfig) { c.choose("ForReading", modeRead) })
}

// ForWriting makes the lock the writing side of a read-write lock, which one owner
// holds alone.
func ForWriting() Option {
	return lockOption(func(c *lockConfig) { c.choose("ForWriting", modeWrite) })
}

// WaitTimeout bounds how long Lock, Do and an upgrade wait for the lock, besides their ctx.
// The wait then ends with a [*WaitError] that is [ErrWaitTimeout]. Without it only
// ctx bounds the wait. d must be positive.
func WaitTimeout(d time.Duration) Option {
	return lockOption(func(c *lockConfig) {
		if d <= 0 {
			c.reject(fmt.Sprintf("a WaitTimeout of %v; use a positive one, or TryLock", d))
			return
		}
		c.waitTimeout = d
	})
}

// AttemptTimeout bounds how long one request waits for the server's reply before
// it counts as unanswered and is repeated. The default is [DefaultAttemptTimeout].
// It never exceeds the time in which a reply would still be of use.
//
// Where a connection has to be made first, that counts towards the timeout: on a line so slow
// that connecting, with its handshakes, and the reply together take longer, most drivers get no
// answer at all.
//
// d must be at least one millisecond.
func AttemptTimeout(d time.Duration) Option {
	return lockOption(func(c *lockConfig) {
		if d < time.Millisecond {
			c.reject(fmt.Sprintf("an AttemptTimeout of %v; use at least 1ms", d))
			return
		}
		c.attemptTimeout = d
	})
}

// Retry sets how Lock goes on after a failed attempt. By default a waiter that is told when the
// lock is free also looks by itself about once a second; a waiter whose driver or server cannot
// tell it backs off exponentially from 8 to 256 ms with full jitter.
//
// Whatever the policy, a waiter that listens looks every 30 seconds, to keep its place in the
// queue. A waiter that cannot reach the server, or cannot be told, looks every second, or after
// half its TTL if that is less: it may be granted the lock without hearing of it. These looks
// are not attempts of the policy.
//
// policy must not be nil, and the result of a [Constant] or [Exponential] that would not sleep
// is.
func Retry(policy RetryPolicy) Option {
	return lockOption(func(c *lockConfig) {
		if policy == nil {
			c.reject("a nil RetryPolicy, which is also what Constant and Exponential make of a time below 1ms or of a limit below the base; leave the option out for the default")
			return
		}
		c.retry = policy
	})
}

// NoRenewal switches the watchdog off: the lease ends TTL after it was taken
// unless Extend lengthens it. By default it is renewed every TTL/3 until Unlock.
func NoRenewal() Option {
	return lockOption(func(c *lockConfig) { c.renew = false })
}

// MaxHold bounds how long a lease is kept, counted from the time it was taken and including
// time for which the machine was suspended (on Linux). After that its context ends with
// [ErrMaxHold] and it is no longer renewed, so that the lock is free when the TTL (or what
// [Lease.Extend] has asked for) has passed. d must be positive. By default there is no bound.
func MaxHold(d time.Duration) Option {
	return lockOption(func(c *lockConfig) {
		if d <= 0 {
			c.reject(fmt.Sprintf("a MaxHold of %v; use a positive one", d))
			return
		}
		c.maxHold = d
	})
}

// Fenced gives every lease of the lock a fencing token, larger than that of every earlier
// lease; a reader has the token of the last writer, if there is one. All users of the lock must
// agree on Fenced. See [Lease.Token].
func Fenced() Option {
	return lockOption(func(c *lockConfig) { c.fenced = true })
}

// Unfair lets this mutex, fenced or not, be taken out of turn: whoever asks for it while it is
// free gets it, although others wait. Lock waits in the queue as always, but is not granted the
// lock when its turn comes; it is told that the lock is free, and has to ask for it like
// everybody else who comes just then.
//
// More is done in the same time if critical sections are short: a holder that wants the lock
// again right away gets it again, and nobody waits for a waiter to wake up. The price is that a
// wait has no bound: a waiter may find the lock taken again and again, and one that waits with
// others for a lock that is never quiet may starve. Leave Unfair out unless throughput is what
// is missing and the waits do not matter.
//
// Each Lock goes by its own options. Calls without Unfair keep their order among each other,
// and calls with it come after them: while a fair call waits, a release gives it the lock.
// Locks with owners (reentrant, read-write) keep their order in any case, and a quorum has
// none; there Unfair changes nothing.
func Unfair() Option {
	return lockOption(func(c *lockConfig) { c.unfair = true })
}

// Metadata is a text that others see in [Holder] while the lock is held: a job's
// id, a URL. It may hold any bytes, at most 4096.
func Metadata(text string) Option {
	return lockOption(func(c *lockConfig) {
		if len(text) > maxMetadata {
			c.reject(fmt.Sprintf("metadata of %d bytes; the limit is %d", len(text), maxMetadata))
			return
		}
		c.metadata = text
	})
}

// Prefix is put before every name to make the server's key. All clients that share locks need
// the same one. The default is none. [New] returns [ErrInvalid] for a prefix that has more than
// 1024 bytes, or that begins with "__golocker:", which is reserved for the side keys of locks.
// So does every call with a name that, with the prefix before it, is longer than that or begins
// so.
func Prefix(prefix string) ClientOption {
	return clientOption(func(c *clientConfig) { c.prefix = prefix })
}

// Label names this client in [Holder], for others to see; it decides nothing. The default is
// the host's name and the process id. It may have at most 256 bytes, without control characters
// and "|"; [New] returns [ErrInvalid] for any other.
func Label(label string) ClientOption {
	return clientOption(func(c *clientConfig) { c.label = label })
}

// MaxWaiters bounds how many calls of Lock, Do and Upgrade of this client may be under way at a
// time, and so how many wait. Further calls get the lock if it is free, and otherwise
// [ErrTooManyWaiters] without a wait: a service that takes a lock for each request it is sent
// then refuses some when there are too many, and does not run out of memory. As many calls
// again may be asking the server; where it is too slow to answer them, others are refused
// without asking it. n is at least 1; the default is [DefaultMaxWaiters], at which the waiting
// calls take some hundreds of megabytes.
func MaxWaiters(n int) ClientOption {
	return clientOption(func(c *clientConfig) {
		if n < 1 {
			c.lock.reject(fmt.Sprintf("MaxWaiters of %d; use at least 1, or TryLock, which does not wait", n))
			return
		}
		c.maxWaiters = n
	})
}

func (c *clientConfig) check() error {
	if !checkLabel(c.label) {
		return invalid(`the label must have at most 256 bytes and no control characters or "|"`)
	}
	if c.prefix != "" {
		if err := checkName(c.prefix); err != nil {
			return err
		}
	}
	return c.lock.problem
}
