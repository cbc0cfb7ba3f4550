package guard

import (
	"encoding/gob"
	"os"
	"syscall"
	"time"
)

// An order is what lockctl tells the guardian. The first one has the command.
type order struct {
	Command  *Command
	Times    Times
	Deadline instant        // until when the lease lasts, if not 0; it only moves on
	Signal   syscall.Signal // to pass on, if not 0
	End      bool
}

// A report is what the guardian tells lockctl.
type report struct {
	Started int
	Failed  syscall.Errno // it could not be started
	Late    bool          // starting it was not even tried, as too little was left of the lease
	Stopped syscall.Signal
	Result  *wireResult
}

// A wireResult is a Result without what only lockctl knows.
type wireResult struct {
	Status syscall.WaitStatus
	Ended  bool
	Left   []int
}

func (w *wireResult) result() *Result {
	r := &Result{Ended: w.Ended, Left: w.Left}
	if w.Status.Signaled() {
		r.Signal = w.Status.Signal()
	} else {
		r.Code = w.Status.ExitStatus()
	}
	return r
}

// A line connects lockctl and the guardian. Strings go as they are, whatever their
// encoding.
type line struct {
	file *os.File
	*gob.Encoder
	*gob.Decoder
}

func newLine(fd int) *line {
	f := os.NewFile(uintptr(fd), "guardian")
	return &line{f, gob.NewEncoder(f), gob.NewDecoder(f)}
}

// An instant is a time by a clock that also runs while the machine is suspended, as
// the server's clock does, and is the same in all processes.
type instant time.Duration

func (i instant) add(d time.Duration) instant { return i + instant(d) }
