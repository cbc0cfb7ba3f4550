package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// streams are where lockctl reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// A tool is one call of lockctl.
type tool struct {
	streams
	target target
	json   bool
}

// execute runs lockctl and returns its exit code.
func execute(ctx context.Context, args []string, s streams) int {
	out := &outlet{Writer: s.out}
	s.out = out
	t := &tool{streams: s}
	root := t.root()
	strict(root)
	root.SetArgs(longURL(args))
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.err
	}
	if e, ok := errors.AsType[*exitError](err); err != nil && (!ok || e.err != nil) {
		t.json = t.json || asksForJSON(args)
		t.complain(err)
	}
	return exitCode(err)
}

// complain tells why lockctl ends.
func (t *tool) complain(err error) {
	if t.json {
		_ = json.NewEncoder(t.err).Encode(struct {
			Error string `json:"error"`
			Exit  int    `json:"exit"`
		}{err.Error(), exitCode(err)})
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") { // of errors that were joined
		fmt.Fprintln(t.err, "lockctl:", printable(line))
	}
	if exitCode(err) == exitUsage {
		fmt.Fprintln(t.err, "Try lockctl --help.")
	}
}

// asksForJSON finds --json even behind a flag that is wrong, after which flags are not read any more.
func asksForJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// longURL lets -url, which many are used to, stand for --url.
func longURL(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "-url" || strings.HasPrefix(arg, "-url=") {
			args[i] = "-" + arg
		}
	}
	return args
}

func (t *tool) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockctl",
		Short: "Distributed locks on Redis and Valkey, from a shell",
		Long: `Lockctl runs commands under the locks of golocker and shows who holds which.

The server is given by --url, or by the environment variable LOCKCTL_URL, which
keeps a password out of the list of processes. Several, an odd number of
independent servers, make a quorum.`,
		Example: `  export LOCKCTL_URL=redis://localhost:6379/0
  lockctl run nightly-report -- ./report.sh
  lockctl ls
  lockctl doctor`,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && hasURL(args[0]) {
				return howToGiveURL()
			}
			if len(args) > 0 {
				return usage("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	t.target.addFlags(root.PersistentFlags())
	root.PersistentFlags().BoolVar(&t.json, "json", false, "write JSON")
	root.PersistentFlags().SortFlags = false
	t.target.completeFlags(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		switch {
		case errors.Is(err, pflag.ErrHelp):
			return err
		case hasURL(err.Error()): // the error repeats what was not understood
			return howToGiveURL()
		}
		return &exitError{exitUsage, err}
	})
	root.AddCommand(t.runCommand(), t.lsCommand(), t.showCommand(), t.watchCommand(), t.breakCommand(),
		t.doctorCommand(), t.benchCommand(), t.versionCommand())
	return root
}

// hasURL finds a server's URL, maybe with a password, which is not shown.
func hasURL(text string) bool { return strings.Contains(text, "://") }

func howToGiveURL() error { return usage("a server is given by --url, or by %s", urlVariable) }

// exactly demands n arguments; what names them.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s needs %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// atMost allows at most n arguments; what names them.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// writeJSON writes one value so that people can read it as well.
func (t *tool) writeJSON(v any) error {
	e := json.NewEncoder(t.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// An outlet remembers that it could not be written to: cobra's help does not look at that, and
// some commands do not, either.
type outlet struct {
	io.Writer
	err error
}

func (o *outlet) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// isTerminal tells whether stream is a terminal, where somebody reads or types.
func isTerminal(stream any) bool {
	if o, ok := stream.(*outlet); ok {
		stream = o.Writer
	}
	f, ok := stream.(*os.File)
	return ok && isTerminalFile(f)
}
