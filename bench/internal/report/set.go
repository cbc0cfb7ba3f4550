package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Quiet is the most CPU, in cores, that other work on the machine may have used
// during a measurement for it to count as undisturbed.
const Quiet = 0.35

// A Set is the samples of one or more runs.
type Set struct {
	Runs    []Meta
	samples []Sample // in the order of measurement
	cells   map[Cell][]Sample
}

// Load adds what a Recorder has written, which may be several runs.
func (s *Set) Load(r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("samples: %w", err)
		}
		switch {
		case l.Meta != nil:
			s.begin(*l.Meta)
		case l.Sample != nil:
			s.add(*l.Sample)
		}
	}
}

func (s *Set) begin(m Meta) { s.Runs = append(s.Runs, m) }

func (s *Set) add(x Sample) {
	x.run = len(s.Runs)
	s.samples = append(s.samples, x)
	if s.cells == nil {
		s.cells = map[Cell][]Sample{}
	}
	s.cells[x.Cell] = append(s.cells[x.Cell], x)
}

// Empty tells that there are no samples.
func (s *Set) Empty() bool { return len(s.samples) == 0 }

// Params are the parameter sets of a scenario in the order of measurement.
func (s *Set) Params(scenario string) []string {
	return s.distinct(scenario, func(c Cell) string { return c.Params })
}

// Contestants are those that took part in a scenario, in running order.
func (s *Set) Contestants(scenario string) []string {
	return s.distinct(scenario, func(c Cell) string { return c.Contestant })
}

func (s *Set) distinct(scenario string, of func(Cell) string) []string {
	var all []string
	for _, x := range s.samples {
		if v := of(x.Cell); x.Scenario == scenario && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// Rounds is how many undisturbed rounds a cell has, of how many in all.
func (s *Set) Rounds(c Cell) (undisturbed, all int) {
	for _, x := range s.cells[c] {
		if x.undisturbed() {
			undisturbed++
		}
	}
	return undisturbed, len(s.cells[c])
}

func (s Sample) undisturbed() bool { return s.M["foreign"] <= Quiet }

// A Pick says how the rounds of a cell become one figure.
type Pick int

const (
	// Median is that of the undisturbed rounds, or of all if there are none.
	Median Pick = iota
	// Worst is the largest of the same rounds.
	Worst
	// Ever is the largest of all rounds. It is for promises: a busy machine does not
	// excuse two holders.
	Ever
	// Least is the smallest of all rounds.
	Least
)

// Value is a metric of a cell. It is false if there is none.
func (s *Set) Value(c Cell, key string, pick Pick) (float64, bool) {
	var kept, all []float64
	for _, x := range s.cells[c] {
		if v, ok := x.M[key]; ok {
			all = append(all, v)
			if x.undisturbed() {
				kept = append(kept, v)
			}
		}
	}
	if len(kept) == 0 || pick == Ever || pick == Least {
		kept = all
	}
	if len(kept) == 0 {
		return 0, false
	}
	switch pick {
	case Median:
		return median(kept), true
	case Least:
		return slices.Min(kept), true
	default:
		return slices.Max(kept), true
	}
}

// Quotient is a metric of a cell divided by that of another one in the same round,
// the median over rounds. Of rounds in which both were undisturbed, if there are
// any: what disturbs one of them may not have met the other.
func (s *Set) Quotient(c, base Cell, key string) (float64, bool) {
	return s.compare(c, base, key, func(v, b float64) (float64, bool) { return v / b, b > 0 })
}

// Difference is like Quotient, with the difference.
func (s *Set) Difference(c, base Cell, key string) (float64, bool) {
	return s.compare(c, base, key, func(v, b float64) (float64, bool) { return v - b, true })
}

func (s *Set) compare(c, base Cell, key string, how func(v, b float64) (float64, bool)) (float64, bool) {
	var kept, all []float64
	for _, x := range s.cells[c] {
		v, ok := x.M[key]
		if !ok {
			continue
		}
		for _, y := range s.cells[base] {
			b, ok := y.M[key]
			if !ok || y.run != x.run || y.Round != x.Round {
				continue
			}
			if r, ok := how(v, b); ok {
				all = append(all, r)
				if x.undisturbed() && y.undisturbed() {
					kept = append(kept, r)
				}
			}
		}
	}
	if len(kept) == 0 {
		kept = all
	}
	if len(kept) == 0 {
		return 0, false
	}
	return median(kept), true
}

// median sorts v, which must not be empty.
func median(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
