package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
	"github.com/golocker/golocker/locker"
)

// heldVariables are what a command finds in its environment.
const (
	keyVariable      = "LOCKCTL_KEY"
	tokenVariable    = "LOCKCTL_TOKEN"
	deadlineVariable = "LOCKCTL_DEADLINE"
)

var heldVariables = []string{keyVariable, tokenVariable, deadlineVariable}

// releaseTime bounds how long lockctl waits for the confirmation that the lock is free.
const releaseTime = 5 * time.Second

// A runner runs one command under a lock.
type runner struct {
	*tool
	flags *runFlags
	key   string
	path  string
	args  []string

	signals chan os.Signal
	stops   chan os.Signal // Ctrl-Z, where it does not reach the command; nil if that is not caught
	lease   *locker.Lease
	process *guard.Process
	console *console
	group   int // the command's process group, 0 until it is started
	pending []syscall.Signal
	ended   syscall.Signal // the signal by which the wait for the lock was ended, 0 if there was none
	lent    bool           // the command had the terminal, in the place of lockctl's own group
	stopped time.Time      // when Ctrl-Z was passed on to the command, which has not stopped yet; zero if it has
}

// run returns nil only where the command has ended well.
func (r *runner) run(ctx context.Context) error {
	if err := guard.Check(); err != nil {
		return err
	}
	r.signals = make(chan os.Signal, 16)
	signal.Notify(r.signals, passedOn()...)
	defer signal.Stop(r.signals)
	// A process that writes to a pipe from which nobody reads is ended by a signal. What lockctl has
	// to say is less important than its lock and its command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	client, err := r.target.open()
	if err != nil {
		return err
	}
	asked, err := r.take(ctx, client)
	if err != nil {
		leave(client) // no command runs, so that the lock may go, too
		if r.ended == syscall.SIGINT && inFront() {
			interrupt(false)
		}
		return err
	}
	result, err := r.supervise(asked)
	if err == nil && len(result.Left) > 0 {
		// The lock is not released: the processes that still run count on it. Nor is
		// the client closed, since that would release the lock.
		return &exitError{exitFailed, fmt.Errorf("the processes %v of the command could not be ended; the lock %q is left to run out", result.Left, r.key)}
	}
	held := r.lease.Err()
	released := r.release(ctx)
	client.Close()
	if err != nil {
		return err
	}
	return r.outcome(result, cmp.Or(held, released)) // the two say the same
}

// take acquires the lock. The moment that it returns is from before the lease was known.
func (r *runner) take(ctx context.Context, client *locker.Client) (guard.Moment, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	mutex := client.Mutex(r.key, r.flags.options()...)
	answers := make(chan answer, 1)
	begun := time.Now()
	go func() { answers <- r.acquire(ctx, mutex) }()
	for {
		select {
		case sig := <-r.signals:
			if s, ok := ends(sig); ok && r.ended == 0 {
				r.ended = s
				cancel(fmt.Errorf("signal: %v", s))
			}
		case a := <-answers:
			switch {
			case r.ended != 0:
				return a.asked, &exitError{exitSignal + int(r.ended), nil}
			case a.lease == nil && errors.Is(a.err, locker.ErrLocked) && !errors.Is(a.err, locker.ErrUnavailable):
				return a.asked, r.notHad(a.err)
			case a.err != nil:
				return a.asked, a.err
			}
			r.lease = a.lease
			r.say(true, event{Event: "acquired", Token: uint64(a.lease.Token()), WaitedMS: time.Since(begun).Milliseconds()})
			return a.asked, nil
		}
	}
}

// An answer is a lease that a command can be run under, or why there is none.
type answer struct {
	lease *locker.Lease
	asked guard.Moment // from before the lease was known
	err   error
}

// acquire waits for the lock until ctx ends. Whatever it leaves behind when it fails is given up when
// the client is closed.
func (r *runner) acquire(ctx context.Context, mutex *locker.Mutex) answer {
	asked := guard.Now()
	lease, err := r.flags.lock(ctx, mutex)
	if err == nil && (asked.Suspended() || time.Until(lease.Deadline()) < r.flags.ttl*3/4) {
		// The machine slept during the wait, so that it is unknown when the lease
		// began; or the lock was granted for the time that was left of the place in the
		// queue, which may be less than the command is to be given for its end.
		asked = guard.Now()
		if err = lease.Extend(ctx, r.flags.ttl); errors.Is(err, locker.ErrLost) || errors.Is(err, locker.ErrNotHeld) {
			err = notStarted(err)
		}
	}
	return answer{lease, asked, err}
}

// notStarted is the end of a run whose lock was lost before the command was started: unlike after
// a loss while it runs, nothing was done.
func notStarted(why error) error {
	return &exitError{exitUnreachable, fmt.Errorf("the command was not started: %w", why)}
}

// notHad is the end of a run whose lock was held by others. If the exit code for that is 0, it is as it
// should be and not worth a line: cron sends a mail for each line, from all hosts but one.
func (r *runner) notHad(err error) error {
	chatty := r.json || r.flags.verbose && !r.flags.quiet
	if r.flags.conflict == 0 && !chatty {
		err = nil
	}
	return &exitError{r.flags.conflict, err}
}

// ends tells whether a signal ends a program that does not expect it.
func ends(sig os.Signal) (syscall.Signal, bool) {
	s, ok := sig.(syscall.Signal)
	return s, ok && s != signalResize
}

// supervise runs the command to its end.
func (r *runner) supervise(asked guard.Moment) (guard.Result, error) {
	deadline := r.lease.Deadline()
	if deadline.IsZero() {
		return guard.Result{}, notStarted(r.lease.Err())
	}
	r.console = openConsole() // before the command can change it
	if !r.console.isFor() {
		r.catchStops()
	}
	process, err := guard.Start(guard.Command{Path: r.path, Args: r.args, Env: r.environment(deadline), JSON: r.json}, r.flags.times(), asked, deadline)
	if _, ok := errors.AsType[*guard.StartError](err); ok {
		return guard.Result{Err: err}, nil
	}
	if err != nil {
		return guard.Result{}, err
	}
	r.process = process
	// Renewals are seen within a fiftieth of the TTL.
	tick := time.NewTicker(min(r.flags.ttl/50, time.Second))
	defer tick.Stop()
	lost := r.lease.Context().Done()
	for {
		select {
		case e := <-process.Events():
			if e.Result != nil {
				r.lent = r.console.takeBack(e.Result.Ended || e.Result.Signal != 0)
				return *e.Result, nil
			}
			r.heed(e)
		case sig := <-r.signals:
			r.pass(sig.(syscall.Signal))
		case <-r.stops:
			r.stopped = time.Now()
			r.pass(signalStop)
		case <-tick.C:
			if d := r.lease.Deadline(); !d.IsZero() {
				process.Extend(d)
			}
		case <-lost:
			lost = nil
			process.End() // before anything is said, which may take its time
			r.say(false, event{Event: "lost", Error: context.Cause(r.lease.Context()).Error()})
		}
	}
}

// pass gives a signal on to the command, as soon as there is one.
func (r *runner) pass(sig syscall.Signal) {
	if r.group == 0 {
		r.pending = append(r.pending, sig)
		return
	}
	r.process.Signal(sig)
}

// stopTime is how long after Ctrl-Z a command that stops is taken to have stopped because of it. A command
// that does not heed Ctrl-Z may be stopped much later, by somebody else.
const stopTime = 2 * time.Second

// heed does what has to be done when a command has been started or stopped.
func (r *runner) heed(e guard.Event) {
	told := time.Since(r.stopped) < stopTime // the others of lockctl's group have been, by the terminal
	if e.Stopped != 0 {
		r.stopped = time.Time{}
	}
	switch {
	case e.Started != 0:
		r.group = e.Started
		if r.console.isFor() {
			r.console.give(r.group)
		} else {
			r.catchStops() // lockctl is in the background by now
		}
		for _, sig := range r.pending {
			r.process.Signal(sig)
		}
	case !told && !r.console.concerned(e.Stopped): // whoever has stopped the command will make it go on
	case r.console != nil && wantsTerminal(e.Stopped) && r.console.ours():
		r.console.give(r.group)
		r.process.Signal(signalContinue)
	case r.console != nil && wantsTerminal(e.Stopped) && r.console.has(r.group): // the command wanted the terminal before it was given
		r.process.Signal(signalContinue)
	case r.lease.Deadline().IsZero(): // the command has been told to end, and need not wait for fg to hear of that
		if !wantsTerminal(e.Stopped) {
			r.process.Signal(signalContinue)
		}
	default:
		// It was Ctrl-Z, or the terminal is another job's. The shell has to learn of the stop.
		r.say(false, event{Event: "suspended", Error: "the lock is not renewed until lockctl goes on, and is lost at " + stamp(r.lease.Deadline())})
		suspend(r.stops, told)
		switch {
		case r.console == nil, told && !r.console.given: // the command was not in front before, either
		case r.console.ours():
			r.console.give(r.group)
		case !r.console.has(r.group):
			r.console.given = false // it goes on in the background: the terminal is the shell's, or another job's
			r.catchStops()
		}
		r.process.Signal(signalContinue)
	}
}

// catchStops has Ctrl-Z passed on to the command from now on. Go cannot stop catching it, so that it is
// caught only where it would stop lockctl and nobody else: the command is in a group of its own.
func (r *runner) catchStops() {
	if r.stops == nil && !stopsIgnored() {
		r.stops = make(chan os.Signal, 1)
		signal.Notify(r.stops, signalStop)
	}
}

// environment is the command's environment. What an outer lockctl has said about its lock does
// not hold for this lock.
func (r *runner) environment(deadline time.Time) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(heldVariables, name)
	})
	env = append(env, keyVariable+"="+r.key, deadlineVariable+"="+stamp(deadline))
	if token := r.lease.Token(); token != 0 {
		env = append(env, tokenVariable+"="+token.String())
	}
	return env
}

// stamp is a time of day as scripts can read it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// release gives the lock up. An error that it returns tells of a loss.
func (r *runner) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	switch err := r.lease.Unlock(ctx); {
	case err == nil:
		r.say(true, event{Event: "released"})
	case errors.Is(err, locker.ErrNotHeld), errors.Is(err, locker.ErrLost):
		return err
	default:
		// The command has run under the lock all the same.
		r.say(false, event{Event: "not released", Error: err.Error() + "; the lock is free when its TTL has passed"})
	}
	return nil
}

// outcome tells how the command has ended, by an exit code.
func (r *runner) outcome(result guard.Result, lost error) error {
	if failed, ok := errors.AsType[*guard.StartError](result.Err); ok {
		if errors.Is(failed, guard.ErrTooLate) {
			return notStarted(fmt.Errorf("the lease of the lock %q had run out", r.key))
		}
		return cannotRun(r.args[0], failed.Err)
	}
	switch {
	case errors.Is(result.Err, guard.ErrGuardian):
		return &exitError{exitFailed, errors.New("the guardian was killed, so the command was ended")}
	case result.Err != nil:
		return result.Err
	case result.Ended:
		why := "it could not be renewed"
		if lost != nil {
			why = lost.Error()
		}
		return &exitError{exitLost, fmt.Errorf("the command was ended, since the lock %q was lost or about to be: %s", r.key, why)}
	case lost != nil:
		return &exitError{exitLost, fmt.Errorf("the lock %q was lost while the command ran: %w", r.key, lost)}
	case result.Signal != 0:
		if result.Signal == syscall.SIGINT && (r.lent || inFront()) {
			interrupt(r.lent)
		}
		return &exitError{exitSignal + int(result.Signal), nil}
	case result.Code != 0:
		return &exitError{result.Code, nil}
	}
	return nil
}

// An event is something that lockctl has to say while its command runs.
type event struct {
	Event    string `json:"event"`
	Key      string `json:"key"`
	Token    uint64 `json:"token,omitempty"`
	WaitedMS int64  `json:"waited_ms,omitempty"`
	Error    string `json:"error,omitempty"`
}

// say writes e to the standard error; the other streams are the command's. Chatter is left
// out unless it is asked for; programs, which read JSON, are told all. With --quiet nobody is told
// anything.
func (r *runner) say(chatter bool, e event) {
	e.Key = r.key
	switch {
	case r.flags.quiet:
	case r.json:
		_ = json.NewEncoder(r.err).Encode(e)
	case chatter && !r.flags.verbose:
	case e.Error != "":
		fmt.Fprintf(r.err, "lockctl: %s: %s: %s\n", printable(e.Key), e.Event, sentence(e.Error))
	default:
		fmt.Fprintf(r.err, "lockctl: %s: %s\n", printable(e.Key), e.Event)
	}
}
