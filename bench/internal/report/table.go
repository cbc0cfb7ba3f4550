package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// A Table says how a scenario is shown.
type Table struct {
	Title   string
	Columns []Column
	Ratios  []Ratio
}

// A Column is one metric.
type Column struct {
	Key   string
	Label string
	Scale float64 // of what is shown to what was measured; 0 means 1
	Prec  int     // decimals
	Pick  Pick
}

// A Ratio is a column that compares with another cell in the same round. It is
// left out of tables in which it would be empty.
type Ratio struct {
	Key   string
	Label string
	// To is the cell to compare with; false if there is none for this one.
	To    func(Cell) (Cell, bool)
	Above bool // the difference, not the quotient
}

// WithContestant compares with a fixed contestant.
func WithContestant(name string) func(Cell) (Cell, bool) {
	return func(c Cell) (Cell, bool) {
		c.Contestant = name
		return c, true
	}
}

// value is the ratio of a cell.
func (r Ratio) value(s *Set, c Cell) (float64, bool) {
	base, ok := r.To(c)
	if !ok {
		return 0, false
	}
	if r.Above {
		return s.Difference(c, base, r.Key)
	}
	return s.Quotient(c, base, r.Key)
}

// Write writes the tables of one scenario in Markdown, one for each parameter set,
// and below them what went wrong and what the contestants are.
func (t Table) Write(w io.Writer, s *Set, scenario string) error {
	params := s.Params(scenario)
	if len(params) == 0 {
		return nil
	}
	var out strings.Builder
	fmt.Fprintf(&out, "## %s: %s\n\n", scenario, t.Title)
	for _, p := range params {
		fmt.Fprintf(&out, "### %s\n\n", p)
		t.grid(&out, s, scenario, p)
	}
	writeErrors(&out, s, scenario)
	writeNotes(&out, s, scenario)
	_, err := io.WriteString(w, out.String())
	return err
}

func (t Table) grid(out *strings.Builder, s *Set, scenario, params string) {
	var cells []Cell
	for _, name := range s.Contestants(scenario) {
		c := Cell{scenario, params, name}
		if _, rounds := s.Rounds(c); rounds > 0 {
			cells = append(cells, c)
		}
	}
	ratios := slices.DeleteFunc(slices.Clone(t.Ratios), func(r Ratio) bool {
		return !slices.ContainsFunc(cells, func(c Cell) bool { _, ok := r.value(s, c); return ok })
	})
	head := []string{"contestant", "rounds"}
	for _, c := range t.Columns {
		head = append(head, c.Label)
	}
	for _, r := range ratios {
		head = append(head, r.Label)
	}
	row(out, head)
	fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---:|", len(head)-1))
	for _, c := range cells {
		undisturbed, all := s.Rounds(c)
		fields := []string{c.Contestant, fmt.Sprintf("%d of %d", undisturbed, all)}
		for _, col := range t.Columns {
			v, ok := s.Value(c, col.Key, col.Pick)
			if col.Scale != 0 {
				v *= col.Scale
			}
			fields = append(fields, figure(v, ok, col.Prec))
		}
		for _, r := range ratios {
			v, ok := r.value(s, c)
			switch {
			case ok && r.Above:
				fields = append(fields, fmt.Sprintf("%+.1f", v))
			default:
				fields = append(fields, figure(v, ok, 2))
			}
		}
		row(out, fields)
	}
	out.WriteString("\n")
}

func row(out *strings.Builder, fields []string) {
	fmt.Fprintf(out, "| %s |\n", strings.Join(fields, " | "))
}

func figure(v float64, ok bool, prec int) string {
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.*f", prec, v)
}

// writeErrors lists the errors of all rounds, also the disturbed ones.
func writeErrors(out *strings.Builder, s *Set, scenario string) {
	counts := map[string]int{}
	for _, x := range s.samples {
		if x.Scenario == scenario {
			for text, n := range x.Errs {
				counts[x.Params+" "+x.Contestant+": "+text] += n
			}
		}
	}
	if len(counts) == 0 {
		return
	}
	out.WriteString("Errors:\n\n")
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "- %s (%d times)\n", text, counts[text])
	}
	out.WriteString("\n")
}

func writeNotes(out *strings.Builder, s *Set, scenario string) {
	notes := map[string]string{}
	for _, x := range s.samples {
		if x.Scenario == scenario && x.Note != "" {
			notes[x.Contestant] = x.Note
		}
	}
	if len(notes) == 0 {
		return
	}
	out.WriteString("Contestants:\n\n")
	for _, name := range s.Contestants(scenario) {
		if note, ok := notes[name]; ok {
			fmt.Fprintf(out, "- %s: %s\n", name, note)
		}
	}
	out.WriteString("\n")
}

// WriteRuns says with what and where the runs of a set were measured.
func WriteRuns(w io.Writer, s *Set) error {
	var out strings.Builder
	for _, m := range s.Runs {
		fmt.Fprintf(&out, "%s, `bench %s`, on %d × %s (%s), %s, %s, load average before: %.2f.\n\n",
			m.Time, strings.Join(m.Args, " "), m.CPUs, m.CPU, m.System, m.Go, m.Server, m.Load)
		for _, module := range slices.Sorted(maps.Keys(m.Deps)) {
			fmt.Fprintf(&out, "- %s %s\n", module, m.Deps[module])
		}
		out.WriteString("\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}
