package round

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/golocker/golocker/internal/robustness/rig"
)

// A Spec says what a round is to be like. Its text, see [Spec.String], makes another round
// like it.
type Spec struct {
	Load Load
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
	return strings.Join([]string{
		string(s.Load), string(s.Kind), strings.Join(s.Drivers, "+"), order, strconv.FormatUint(s.Seed, 10), strings.Join(s.Faults, "+"),
	}, ":")
}

// Parse is the inverse of [Spec.String].
func Parse(text string) (Spec, error) {
	part := strings.Split(text, ":")
	if len(part) != 6 {
		return Spec{}, fmt.Errorf("round: %q is not of the form light|heavy:kind:drivers:alone|mixed:seed:faults", text)
	}
	seed, err := strconv.ParseUint(part[4], 10, 64)
	if err != nil {
		return Spec{}, fmt.Errorf("round: the seed of %q: %w", text, err)
	}
	if part[3] != "alone" && part[3] != "mixed" {
		return Spec{}, fmt.Errorf("round: the faults of %q are either alone or mixed", text)
	}
	return Spec{
		Load: Load(part[0]), Kind: rig.Kind(part[1]), Drivers: strings.Split(part[2], "+"),
		Faults: strings.FieldsFunc(part[5], func(r rune) bool { return r == '+' }),
		Mixed:  part[3] == "mixed", Seed: seed,
	}, nil
}

// Greedy tells whether a fault of the round takes the whole machine, so that others are
// not to be measured beside it.
func (s Spec) Greedy() bool { return slices.Contains(s.Faults, "cpu-starvation") }
