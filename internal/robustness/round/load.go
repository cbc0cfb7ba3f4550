package round

import "time"

// A Load is how much is done in a round, and how fast.
type Load string

const (
	// Heavy is for a machine that does nothing else. Leases are short, so that the faults
	// that outlast them are.
	Heavy Load = "heavy"
	// Light is for one that is busy with other tests, under the race detector too.
	Light Load = "light"
)

// measures are what a load means.
type measures struct {
	workers, hands, locks int
	pause                 time.Duration // between two locks of a hand, on average
	ttl, longest          time.Duration // the usual lease, and the longest
	// patience is how much later than promised something may happen because the machine
	// is busy.
	patience time.Duration
	// coolDown is how long the workers go on when all faults are healed.
	coolDown time.Duration
	// operations is how many there have to be for each fault.
	operations int
}

// poll is how often a waiter looks at the lock when no message comes, and place for how long
// its place is kept when it is not heard of.
const (
	poll  = time.Second
	place = 2*poll + 2*time.Second
)

func (l Load) measures() measures {
	if l == Light {
		return measures{
			workers: 3, hands: 5, locks: 40, pause: 50 * time.Millisecond,
			ttl: 2 * time.Second, longest: 4 * time.Second,
			patience: 10 * time.Second, coolDown: 2 * time.Second, operations: 20,
		}
	}
	m := measures{
		workers: 4, hands: 16, locks: 100, pause: 25 * time.Millisecond,
		ttl: time.Second, longest: 2 * time.Second,
		patience: 4 * time.Second, operations: 100,
	}
	// What may take longer after a fault is not let off any more in the last seconds.
	m.coolDown = m.longest + poll + m.patience + 3*time.Second
	return m
}

// margin is by how much a holder gives up the longest lease before it is over.
func (m measures) margin() time.Duration {
	return m.longest/100 + 2*time.Millisecond + max(m.longest/20, 100*time.Millisecond)
}

// shortest is how long a fault lasts at least, and half of what it lasts at most: mostly
// longer than a lease.
func (m measures) shortest() time.Duration { return m.longest * 3 / 4 }

// stopTime is how long a worker may take to give up what it holds: an Unlock that is not
// answered, a lease that nobody unlocks, and the client's Close come one after the other.
func (m measures) stopTime() time.Duration {
	return time.Second + m.longest + 5*time.Second + m.patience + 10*time.Second
}
