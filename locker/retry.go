package locker

import (
	"math"
	"time"
)

// A RetryPolicy decides how a waiter goes on after its n-th attempt (from 1) at a lock has
// failed: how long it sleeps at most before the next one, and whether there is a next one. A
// message that the lock is free cuts the sleep short. When the holder's lease would end without
// a renewal the waiter looks, which does not count as an attempt.
//
// r is a random number in [0, 1) for jitter. A policy is a pure function of its arguments, so
// that one value serves any number of locks and goroutines at once. A sleep below a millisecond
// counts as one millisecond: a waiter that asks without any sleep loads the server as heavily
// as it can, and is told no sooner.
type RetryPolicy func(n int, r float64) (sleep time.Duration, again bool)

// minSleep bounds what a policy may ask for from below.
const minSleep = time.Millisecond

// Constant sleeps d between attempts, without end. d must be at least a millisecond: for a
// shorter one Constant returns a nil policy, which [Retry] reports as [ErrInvalid].
func Constant(d time.Duration) RetryPolicy {
	if d < minSleep {
		return nil
	}
	return func(int, float64) (time.Duration, bool) { return d, true }
}

// Exponential sleeps a random time between 0 and base·2^(n-1), the latter at most limit,
// without end ("full jitter"). base must be at least a millisecond, and limit no shorter than
// base: for others Exponential returns a nil policy, which [Retry] reports as [ErrInvalid].
//
// Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015.
func Exponential(base, limit time.Duration) RetryPolicy {
	if base < minSleep || limit < base {
		return nil
	}
	return func(n int, r float64) (time.Duration, bool) {
		most := math.Min(float64(base)*math.Pow(2, float64(n-1)), float64(limit))
		return time.Duration(r * most), true
	}
}

// Attempts ends policy after n attempts in all. Then Lock returns what the last attempt said, a
// *LockedError for instance. n below 1 counts as 1. For a nil policy it returns a nil one,
// which [Retry] reports as [ErrInvalid].
func Attempts(n int, policy RetryPolicy) RetryPolicy {
	if policy == nil {
		return nil
	}
	return func(i int, r float64) (time.Duration, bool) {
		if i >= n {
			return 0, false
		}
		return policy(i, r)
	}
}

const (
	// pollInterval is how long a waiter that listens for messages sleeps at most when
	// it has no policy of its own, and not many others of its client wait: messages can
	// be lost.
	pollInterval = time.Second
	// pollPause is the time between two looks of the waiters of a client, if they are
	// many. Each look costs the server a tenth of a millisecond.
	pollPause = 4 * time.Millisecond
)

// listening is the policy of a waiter that is told when the lock is free, and looks after
// interval at the latest.
func listening(interval time.Duration) RetryPolicy {
	return func(_ int, r float64) (time.Duration, bool) {
		return interval*3/4 + time.Duration(r*float64(interval/4)), true
	}
}

// polling is the policy of a waiter that must find out by itself, though no earlier than
// least.
func polling(least time.Duration) RetryPolicy {
	return func(n int, r float64) (time.Duration, bool) {
		sleep, _ := exponential(n, r)
		return max(sleep, least*3/4+time.Duration(r*float64(least/4))), true
	}
}

var exponential = Exponential(8*time.Millisecond, 256*time.Millisecond)
