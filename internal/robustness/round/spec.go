package round

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golocker/golocker/internal/robustness/rig"
)

// A Spec says what a round is to be like. Its text, see [Spec.String], makes another round
// like it.
type Spec struct {
	Kind rig.Kind
	// Drivers are those of the workers: in turn for the nodes of a quorum.
	Drivers []string
	// Faults are the names of those that are injected, in this order.
	Faults []string
	// Mixed injects each fault while the one before still lasts.
	Mixed bool
	// Seed decides what the workers do and what each fault is done to.
	Seed uint64
}

// String returns the spec as one word.
func (s Spec) String() string {
	order := "alone"
	if s.Mixed {
		order = "mixed"
	}
	return fmt.Sprintf("%s:%s:%s:%d:%s", s.Kind, strings.Join(s.Drivers, "+"), order, s.Seed, strings.Join(s.Faults, "+"))
}

// Parse is the inverse of [Spec.String].
func Parse(text string) (Spec, error) {
	part := strings.Split(text, ":")
	if len(part) != 5 {
		return Spec{}, fmt.Errorf("round: %q is not of the form kind:drivers:alone|mixed:seed:faults", text)
	}
	seed, err := strconv.ParseUint(part[3], 10, 64)
	if err != nil {
		return Spec{}, fmt.Errorf("round: the seed of %q: %w", text, err)
	}
	if part[2] != "alone" && part[2] != "mixed" {
		return Spec{}, fmt.Errorf("round: the faults of %q are either alone or mixed", text)
	}
	return Spec{
		Kind: rig.Kind(part[0]), Drivers: strings.Split(part[1], "+"),
		Faults: strings.FieldsFunc(part[4], func(r rune) bool { return r == '+' }),
		Mixed:  part[2] == "mixed", Seed: seed,
	}, nil
}

// What all rounds have in common. Leases are short, so that faults that outlast them are.
const (
	ttl     = time.Second
	longest = 2 * time.Second
	poll    = time.Second
	// place is for how long a waiter's place is kept that is not heard of.
	place = 2*poll + 2*time.Second
	// margin is by how much a holder gives up the longest lease before it is over.
	margin = longest/100 + 2*time.Millisecond + 100*time.Millisecond
	// patience is how much later than promised something may happen because the machine
	// is busy.
	patience = 4 * time.Second

	workers = 4
	hands   = 16
	locks   = 100
	pause   = 25 * time.Millisecond
)

// Greedy tells whether a fault of the round takes the whole machine, so that others are
// not to be measured beside it.
func (s Spec) Greedy() bool { return slices.Contains(s.Faults, "cpu-starvation") }
