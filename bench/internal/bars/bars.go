// Package bars holds golocker's own figures to what they have to be. The list is in
// list.go.
package bars

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/golocker/golocker/bench/internal/report"
)

// A row is one bar for each of the contestants.
type row struct {
	scenario, params string
	contestants      []string
	what             string
	figure           figure
	bound            bound
}

// A figure is what is held to the bar; false if it was not measured.
type figure func(*report.Set, report.Cell) (float64, bool)

// value is the median of a metric in the unit, over rounds.
func value(key string, unit float64) figure { return picked(key, unit, report.Median) }

// worst is the largest of all rounds, and least the smallest.
func worst(key string, unit float64) figure { return picked(key, unit, report.Ever) }
func least(key string, unit float64) figure { return picked(key, unit, report.Least) }

func picked(key string, unit float64, pick report.Pick) figure {
	return func(s *report.Set, c report.Cell) (float64, bool) {
		v, ok := s.Value(c, key, pick)
		return v / unit, ok
	}
}

// times is a metric as a multiple of that of another cell in the same round.
func times(key string, to func(report.Cell) (report.Cell, bool)) figure {
	return compared((*report.Set).Quotient, key, to)
}

// above is by how much a metric is more than that of another cell in the same round.
func above(key string, to func(report.Cell) (report.Cell, bool)) figure {
	return compared((*report.Set).Difference, key, to)
}

func compared(how func(s *report.Set, c, base report.Cell, key string) (float64, bool), key string, to func(report.Cell) (report.Cell, bool)) figure {
	return func(s *report.Set, c report.Cell) (float64, bool) {
		base, ok := to(c)
		if !ok {
			return 0, false
		}
		return how(s, c, base, key)
	}
}

// A bound is the bar itself.
type bound struct {
	limit float64
	least bool // it must be at least that much, not at most
}

func atMost(limit float64) bound  { return bound{limit: limit} }
func atLeast(limit float64) bound { return bound{limit: limit, least: true} }

func (b bound) met(v float64) bool {
	if b.least {
		return v >= b.limit
	}
	return v <= b.limit
}

func (b bound) String() string {
	limit := strconv.FormatFloat(b.limit, 'f', -1, 64)
	if b.least {
		return "≥ " + limit
	}
	return "≤ " + limit
}

// text shows four digits, and more of large figures.
func text(v float64) string {
	switch {
	case v < 10 && v > -10:
		return fmt.Sprintf("%.3f", v)
	case v < 100 && v > -100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

// A Count says how many bars were met and missed, and how many were not measured.
type Count struct{ Met, Missed, Unmeasured int }

// Write writes every bar and what was measured as a table in Markdown.
func Write(w io.Writer, s *report.Set) (Count, error) { return write(w, s, list) }

func write(w io.Writer, s *report.Set, list []row) (Count, error) {
	var n Count
	var out strings.Builder
	out.WriteString("| scenario | parameters | contestant | what | bar | measured | |\n|---|---|---|---|---:|---:|---|\n")
	for _, r := range list {
		for _, name := range r.contestants {
			v, ok := r.figure(s, report.Cell{Scenario: r.scenario, Params: r.params, Contestant: name})
			measured, verdict := "-", "not measured"
			switch {
			case !ok:
				n.Unmeasured++
			case r.bound.met(v):
				n.Met++
				measured, verdict = text(v), "met"
			default:
				n.Missed++
				measured, verdict = text(v), "**missed**"
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s |\n", r.scenario, r.params, name, r.what, r.bound, measured, verdict)
		}
	}
	fmt.Fprintf(&out, "\n%d met, %d missed, %d not measured.\n", n.Met, n.Missed, n.Unmeasured)
	_, err := io.WriteString(w, out.String())
	return n, err
}
