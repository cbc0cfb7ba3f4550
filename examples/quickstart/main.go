// Quickstart shows what a distributed lock is for. Five worker processes compete to
// draw ten lottery winners, each exactly once, and to sell the last ticket of a
// concert exactly once. Both jobs are read, think, write, and go wrong as soon as
// two workers do them at the same time; a lock keeps them apart.
//
// On the way one worker is killed while it holds the lock, and another is paused
// past the end of its lease and wakes up to write: the fencing token of its lease
// is out of date by then, and the ledger refuses it.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -driver rueidis -url redis://localhost:6379/0
//
// Without -url it runs on an embedded server. It ends with the number of
// violations, and with exit status 1 if there was any.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
)

var program = demo.Program{
	Name:  "quickstart",
	Title: "Five workers, one lock",
	TTL:   1500 * time.Millisecond,
	Play: func(ctx context.Context, s *demo.Stage) error {
		l := newLedger(s)
		if err := play(ctx, s, l); err != nil {
			return err
		}
		if !l.summary() {
			return errors.New("a promise was broken")
		}
		return nil
	},
	Parts: map[string]func(context.Context, *demo.Part) error{"worker": work},
}

func main() { program.Main() }
