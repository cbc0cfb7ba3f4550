package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
	"github.com/golocker/golocker/locker"
)

// minRunTTL is the shortest lease of a command: it has to be asked to end, and killed, in
// good time.
const minRunTTL = time.Second

// runFlags are the flags of lockctl run.
type runFlags struct {
	ttl      time.Duration
	grace    patience
	wait     patience
	nonblock bool
	read     bool
	write    bool
	fenced   bool
	metadata string
	conflict int
	verbose  bool
	quiet    bool
}

// A span of time may be given in seconds, as for flock(1).
type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }
func (s *span) Type() string   { return "duration" }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		n, numErr := strconv.ParseFloat(text, 64)
		if numErr != nil || !(n < 1e9) {
			return errors.New("use a time such as 90s or 5m, or a number of seconds")
		}
		d = time.Duration(n * float64(time.Second))
	}
	if d < 0 {
		return errors.New("use a time that is not negative")
	}
	*s = span(d)
	return nil
}

// A patience is how long to wait, for the lock or for the command.
type patience struct {
	time.Duration
	set bool
}

func (p *patience) String() string { return "" }
func (p *patience) Type() string   { return "duration" }

func (p *patience) Set(text string) error {
	if err := (*span)(&p.Duration).Set(text); err != nil {
		return err
	}
	p.set = true
	return nil
}

func (t *tool) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] KEY -- command [argument...]",
		Short: "Run a command while holding a lock",
		Long: `Run waits for the lock KEY, runs the command, and gives the lock up when it has
ended. The lock is renewed meanwhile. If it is lost, the command is asked to end
(SIGTERM) and then killed, before anybody else can have the lock.` + guardedHelp() + `

The command gets LOCKCTL_KEY, LOCKCTL_TOKEN (with --fenced) and LOCKCTL_DEADLINE
in its environment. Signals to lockctl are passed on to it.

Exit codes: the command's own, or
   64  the command line cannot be used
   65  the key holds something else than this kind of lock
   69  the server cannot be reached, or does not answer in time; nothing was done
   70  something else went wrong
   75  the lock was not had in time (see --conflict-exit-code)
   77  the server refused a command: permissions, memory
   79  the lock was lost while the command ran
  126  the command cannot be run
  127  the command was not found
  128+ and the number of the signal that ended the command`,
		Example: `  lockctl run backup -- pg_dump -f /backup/db.sql db
  lockctl run --nonblock cron:cleanup -- ./cleanup.sh     # unless another host is at it
  lockctl run --wait 10s deploy -- make deploy
  lockctl run --read catalogue -- ./export.sh             # beside other readers`,
		Args: func(cmd *cobra.Command, args []string) error {
			_, _, err := keyAndCommand(cmd.ArgsLenAtDash(), args)
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return t.completeName(cmd, args, toComplete)
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.target.settle(); err != nil {
				return err
			}
			if !cmd.Flags().Changed("ttl") {
				f.ttl = max(t.target.within(f.ttl), minRunTTL)
			}
			if err := f.check(); err != nil {
				return err
			}
			if f.read && f.fenced && t.target.isQuorum() {
				return usage("--read and --fenced exclude each other on a quorum, whose readers have no fencing tokens: leave out --fenced, or use one deployment")
			}
			key, command, err := keyAndCommand(cmd.ArgsLenAtDash(), args)
			if err != nil {
				return err
			}
			path, err := findCommand(command[0])
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("metadata") {
				f.metadata = filepath.Base(command[0])
			}
			r := &runner{tool: t, flags: f, key: key, path: path, args: command}
			return r.run(cmd.Context())
		},
	}
	f.addTo(cmd.Flags())
	return cmd
}

// keyAndCommand takes apart the arguments of run; before is how many of them stand before the first --.
// A key that begins with - stands behind that --, as for other commands, and before a second one.
func keyAndCommand(before int, args []string) (key string, command []string, err error) {
	switch {
	case before == 1 && len(args) > 1:
		return args[0], args[1:], nil
	case before == 0 && len(args) > 2 && args[1] == "--":
		return args[0], args[2:], nil
	}
	return "", nil, usage("give one key, then -- and the command: lockctl run KEY -- command")
}

func (f *runFlags) addTo(flags *pflag.FlagSet) {
	flags.SortFlags = false
	f.ttl = locker.DefaultTTL
	flags.Var((*span)(&f.ttl), "ttl", "lease time: how long the others wait if this machine dies")
	flags.VarP(&f.wait, "wait", "w", "wait so long at most, and not at all with 0 (also --timeout; default: for ever)")
	flags.BoolVarP(&f.nonblock, "nonblock", "n", false, "do not wait: short for --wait 0")
	flags.Var(&f.grace, "grace", "time between SIGTERM and SIGKILL (default a sixth of the TTL, 10s at most)")
	flags.BoolVar(&f.read, "read", false, "share the lock with other readers: the reading side of a read-write lock")
	flags.BoolVar(&f.write, "write", false, "the writing side of a read-write lock")
	flags.BoolVar(&f.fenced, "fenced", false, "get a fencing token; all users of the lock must do so (a reader gets the last writer's while that is kept, and none on a quorum)")
	flags.StringVar(&f.metadata, "metadata", "", "a text that others see while the lock is held (default the command's name)")
	flags.IntVarP(&f.conflict, "conflict-exit-code", "E", exitNotHad, "exit code when the lock was not had in time")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "say when the lock is had and given up")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "say nothing but errors")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name { // as flock(1) calls them
		case "timeout":
			name = "wait"
		case "nb":
			name = "nonblock"
		}
		return pflag.NormalizedName(name)
	})
}

func guardedHelp() string {
	if guard.Guarded {
		return ` A guardian
process sees to that even if lockctl itself is killed or stopped. What leaves the
command's session (setsid, daemons) is not ended.`
	}
	return `
On this system nobody does so if lockctl itself is killed or stopped: use
a fencing token where that matters.`
}

// check completes the flags.
func (f *runFlags) check() error {
	switch {
	case f.ttl < minRunTTL:
		return usage("--ttl %v is too short to end a command in time: use %v or more", f.ttl, minRunTTL)
	case f.ttl > locker.MaxTTL:
		return usage("--ttl %v is too long: use %v at most", f.ttl, locker.MaxTTL)
	case f.grace.Duration > f.ttl/4:
		return usage("--grace %v is more than a quarter of --ttl %v: lower it, or raise the TTL", f.grace.Duration, f.ttl)
	case f.read && f.write:
		return usage("--read and --write exclude each other")
	case f.nonblock && f.wait.set && f.wait.Duration > 0:
		return usage("--nonblock and --wait %v exclude each other", f.wait.Duration)
	case f.conflict < 0 || f.conflict > 255:
		return usage("--conflict-exit-code %d: use one from 0 to 255", f.conflict)
	}
	if !f.grace.set {
		f.grace.Duration = min(f.ttl/6, 10*time.Second)
	}
	f.nonblock = f.nonblock || f.wait.set && f.wait.Duration == 0
	return nil
}

// times are when the command is ended before the lease is over.
func (f *runFlags) times() guard.Times {
	return guard.Times{Margin: max(f.ttl/50, 100*time.Millisecond), Grace: f.grace.Duration}
}

// options are the options of the lock.
func (f *runFlags) options() []locker.Option {
	opts := []locker.Option{locker.TTL(f.ttl), locker.Metadata(f.metadata)}
	if f.read {
		opts = append(opts, locker.ForReading())
	}
	if f.write {
		opts = append(opts, locker.ForWriting())
	}
	if f.fenced {
		opts = append(opts, locker.Fenced())
	}
	if f.wait.Duration > 0 {
		opts = append(opts, locker.WaitTimeout(f.wait.Duration))
	}
	return opts
}

// lock takes the lock. A run that does not wait for the lock does not wait long for the server,
// either: for one answer, and for no other if that is lost.
func (f *runFlags) lock(ctx context.Context, m *locker.Mutex) (*locker.Lease, error) {
	if !f.nonblock {
		return m.Lock(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, locker.DefaultAttemptTimeout, locker.ErrWaitTimeout)
	defer cancel()
	return m.TryLock(ctx)
}

// findCommand looks for the command before anybody waits for a lock.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", cannotRun(name, err)
	}
	return path, nil
}

// cannotRun makes an error with the exit code that shells have for it.
func cannotRun(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &exitError{exitNotFound, fmt.Errorf("%s: command not found", name)}
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno
	}
	return &exitError{exitCannotRun, fmt.Errorf("%s: cannot be run: %w", name, err)}
}
