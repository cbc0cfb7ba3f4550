// Saga hands one lock from process to process: an order is paid by one, packed by another,
// and shipped by a third, and from the first step to the last nobody else may touch it.
//
//	go run ./examples/saga
//	go run ./examples/saga -driver rueidis -url redis://localhost:6379/0
//
// A step that is done ends with [locker.Lease.Detach]: the lock stays on the server, held
// by nobody, for as long as the next step may take to begin. What Detach returns, the id,
// goes to the next process with the message that there is work to do; here through a
// file, else through a queue. [locker.Mutex.Attach] takes the lock up again with it:
//
//   - The id is good once. A queue delivers a message twice now and then; of two processes
//     that take up the same id, one gets the lock and the other ErrTaken.
//   - The former holder is out. Its lease is over from Detach on, whatever it goes on
//     doing, and each step has a larger fencing token than the one before.
//   - Who crashes holds nobody up for ever. The lease of the third process runs out here,
//     and the sweeper, which has been waiting for the lock like anybody else, finds a
//     saga that is not at its end and undoes its steps, last one first. (A fair wait in the
//     queue is all it takes: it gets the lock when the saga has ended, or died.)
//
// Where the processes are one process, a lock held by [locker.Mutex.Do] around all steps
// is simpler. What a saga is, and why steps are undone: H. Garcia-Molina and K. Salem,
// "Sagas", 1987.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
)

const order = "order:42"

var program = demo.Program{
	Name:  "saga",
	Title: "One order, five processes",
	TTL:   1500 * time.Millisecond,
	Play:  play,
	Parts: map[string]func(context.Context, *demo.Part) error{
		"till": till, "warehouse": warehouse, "carrier": carrier, "sweeper": sweeper,
	},
}

func main() { program.Main() }

func play(ctx context.Context, s *demo.Stage) error {
	steps, err := s.Journal()
	if err != nil {
		return err
	}
	queue, err := s.Journal()
	if err != nil {
		return err
	}
	run := func(role string, names ...string) error {
		waits := make(chan error, len(names))
		for _, name := range names {
			process, err := s.Start(ctx, role, name, string(steps), string(queue))
			if err != nil {
				return err
			}
			go func() { waits <- process.Wait() }()
		}
		var err error
		for range names {
			err = errors.Join(err, <-waits)
		}
		return err
	}
	if err := run("till", "till"); err != nil {
		return err
	}
	intruder, err := s.Open("intruder")
	if err != nil {
		return err
	}
	defer intruder.Close()
	if _, err = intruder.Mutex(order, locker.Fenced()).TryLock(ctx); err != nil {
		s.Say("intruder is told: %v", err)
	}
	kept := errors.Is(err, locker.ErrLocked)
	// The message is delivered twice.
	if err := run("warehouse", "warehouse 1", "warehouse 2"); err != nil {
		return err
	}
	crash := run("carrier", "carrier")
	if err := run("sweeper", "sweeper"); err != nil {
		return err
	}
	lines, err := steps.Lines()
	if err != nil {
		return err
	}
	history, tokens := read(lines)
	s.Print("\n")
	s.Promise(kept, "between two processes the order was locked, though nobody held the lock")
	s.Promise(strings.Count(history, ", packed") == 1, "of two that took up the same id one did the work")
	s.Promise(crash != nil && history == "paid, packed, unpacked, refunded", "the saga whose carrier crashed was undone: %s", history)
	s.Promise(tokens, "each step had a larger fencing token than the one before")
	return nil
}

// read returns the steps, and whether their tokens only grow.
func read(lines []string) (history string, growing bool) {
	var steps []string
	growing = true
	last := uint64(0)
	for _, line := range lines {
		var token uint64
		var step string
		if _, err := fmt.Sscan(line, &token, &step); err != nil || token < last {
			growing = false
		}
		last = token
		steps = append(steps, step)
	}
	return strings.Join(steps, ", "), growing
}
