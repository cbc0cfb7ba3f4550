// Package guard runs a command for as long as a lease lasts, and sees to it that nothing
// of it runs any longer. It is written for lockctl.
//
// On Linux the command is the child of a guardian, a process of its own that knows until
// when the lease lasts and needs nobody to end the command in time:
//
//	lockctl ── guardian ── command ── what the command starts
//
// Whatever becomes of lockctl (it is killed, it is stopped), the guardian asks the
// command to end by SIGTERM when the time has come, and ends it by SIGKILL. If the
// guardian is killed, the kernel kills the command, and lockctl the rest; if it is stopped,
// lockctl kills all of them in its place. The guardian and lockctl both adopt the orphans
// among the command's descendants, so that none gets out of sight.
//
// What belongs to the command is its process group and all its other descendants in its
// session: the jobs of an interactive shell have groups of their own. Only what leaves
// the session (setsid, a daemon) or is started by somebody else (at, systemd-run, docker) is
// beyond reach.
//
// A program runs one command at a time: where lockctl has to step in, it ends whatever it
// has started.
//
// On other systems there is no guardian. The command is ended by lockctl itself, so that it
// outlives a lockctl that is killed or stopped.
package guard

import (
	"errors"
	"syscall"
	"time"
)

// A Command is what to run.
type Command struct {
	Path string   // of the program
	Args []string // the first is the program's name
	Env  []string
	JSON bool // what the guardian says in the place of a lockctl that was killed is a JSON object
}

// Times are when a command is ended before its lease ends.
type Times struct {
	// Margin is how long before the end of the lease the command is killed.
	Margin time.Duration
	// Grace is how long before that the command is asked to end. A command that is ended
	// earlier has this time at most.
	Grace time.Duration
}

// A Result is how a command has ended.
type Result struct {
	// Code is its exit status; if Signal is not 0, that signal has ended it.
	Code   int
	Signal syscall.Signal
	// Ended tells that it was ended here, because of the lease's end or by End, and not
	// by itself.
	Ended bool
	// Left are processes of it that could not be ended: they belong to another user, or
	// are in the midst of a system call that does not return.
	Left []int
	// Err is why it was not guarded to its end, if it was not.
	Err error
}

// An Event is something that happens to a command.
type Event struct {
	// Started is the command's process id, with the first event.
	Started int
	// Stopped is the signal that has stopped it.
	Stopped syscall.Signal
	// Result is how it has ended, with the last event.
	Result *Result
}

// ErrGuardian is the error of a command that lost its guardian.
var ErrGuardian = errors.New("guard: the guardian was killed")

// ErrTooLate is the error of a command that was not started since too little was left of the lease.
var ErrTooLate = errors.New("guard: too little is left of the lease")

// A StartError is why a command could not be started.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns what the system said.
func (e *StartError) Unwrap() error { return e.Err }
