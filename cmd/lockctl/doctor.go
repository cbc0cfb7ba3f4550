package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
)

// A level says how much a finding matters for locks.
type level string

const (
	fine    level = "ok"
	note    level = "note"    // good to know
	warning level = "warning" // locks may be lost in certain events
	problem level = "problem" // locks do not work, or are lost in normal operation
	unseen  level = "unseen"  // the server does not tell
)

// A finding is one thing that doctor has looked at.
type finding struct {
	Check string `json:"check"`
	Level level  `json:"level"`
	Found string `json:"found"`
	Means string `json:"means,omitempty"` // for locks
}

// A patient is a server, or all of them, with what was found.
type patient struct {
	Server   string    `json:"server"`
	Findings []finding `json:"findings"`
}

// A diagnosis is what lockctl doctor says.
type diagnosis struct {
	Patients []patient `json:"servers"`
	Problems int       `json:"problems"`
}

func (t *tool) doctorCommand() *cobra.Command {
	var probe string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what of the servers matters for locks",
		Long: `Doctor looks at each server (of a Cluster, at each master; of a quorum, at each
node): its version, what it does when its memory is full, what it keeps when it is
restarted, its replicas, its clock, and what this user may do. It says what each
finding means for locks. To find out what works it takes a lock of each kind, under
a name of its own, and passes it on to a second client that waits for it.

A server that forbids INFO and CONFIG can be used all the same; doctor says then what
it could not see.

Exit code 1 means that a problem was found; notes and warnings are none.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usage("--timeout %v: use a positive one", timeout)
			}
			if probe == "" {
				probe = "lockctl:doctor:" + rand.Text()
			}
			d, err := t.diagnose(cmd.Context(), probe, timeout)
			if err != nil {
				return err
			}
			if t.json {
				err = t.writeJSON(d)
			} else {
				err = d.write(t.out)
			}
			if err == nil && d.Problems > 0 {
				return &exitError{exitFindings, nil}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&probe, "probe", "", "a name to take locks of (default a random one after lockctl:doctor:)")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long one server, or one of the locks, is waited for")
	return cmd
}

// diagnose looks at everything.
func (t *tool) diagnose(ctx context.Context, probe string, timeout time.Duration) (diagnosis, error) {
	servers, err := t.examine(ctx, timeout)
	if err != nil {
		return diagnosis{}, err
	}
	quorum := t.target.isQuorum()
	var patients []patient
	for _, f := range servers {
		patients = append(patients, patient{f.server, f.assess(quorum)})
	}
	all := patient{Server: "all together", Findings: assessClocks(servers, quorum)}
	locks, err := t.tryLocks(ctx, probe, timeout, servers)
	if err != nil {
		return diagnosis{}, err
	}
	all.Findings = append(append(all.Findings, locks...), assessGuardian(guard.Guarded, guard.Check()))
	return diagnosisOf(append(patients, all)), nil
}

func diagnosisOf(patients []patient) diagnosis {
	d := diagnosis{Patients: patients}
	for _, p := range patients {
		for _, f := range p.Findings {
			if f.Level == problem {
				d.Problems++
			}
		}
	}
	return d
}

// write writes d for people.
func (d diagnosis) write(w io.Writer) error {
	for i, p := range d.Patients {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, printable(p.Server))
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range p.Findings {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", f.Level, f.Check, sentence(f.Found))
			for _, line := range wrapped(f.Means, 76) {
				fmt.Fprintf(table, "  \t\t  %s\n", line)
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	summary := "No problems."
	if d.Problems > 0 {
		summary = fmt.Sprintf("Problems: %d.", d.Problems)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", summary)
	return err
}

// wrapped breaks text into lines of at most width characters.
func wrapped(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= width {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}
