// Fencedwriter shows why a lock alone does not protect a database, and the two lines of
// SQL that do.
//
//	go run ./examples/fencedwriter
//	go run ./examples/fencedwriter -driver rueidis -url redis://localhost:6379/0
//
// Two clerks add to the balance of an account: read, think, write, under a lock. The
// first is paused between thinking and writing for longer than its lease lasts, as by a
// virtual machine that is moved, a laptop that is closed, a debugger. The second gets the
// lock, reads, and writes. Then the first goes on. It has asked whether it holds the
// lock, and it did, when it asked; now it writes, and the second's money is gone.
//
// No lock service can prevent that, since nothing stands between the first's question and its
// write. The database can: each lease of a lock that is [locker.Fenced] has a larger
// token than all before it, the row keeps the largest that it was shown, and
//
//	UPDATE accounts SET token = $1 WHERE id = $2 AND token <= $1 RETURNING balance
//	UPDATE accounts SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
//
// change no row if a later holder has been there. That is all; "no row" means that the lock
// was lost. It is <= and not <, so that a holder can write several times. The first is how a
// holder reads what it is going to write anew: with a mere SELECT there, the first clerk could
// write after the second has read, and it is the first's money that would be gone.
//
// Three rules go with it. Every write of what the lock protects carries the check. A new
// row is inserted with the token of who inserts it; a deleted one leaves its token
// behind, or a late writer brings it back. And where a transaction writes several rows,
// it checks one that all holders write, first, so that its lock keeps the others out
// until COMMIT.
//
// The SQL is PostgreSQL's. It runs on an embedded SQLite here, through database/sql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	_ "modernc.org/sqlite"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
)

var program = demo.Program{
	Name:  "fencedwriter",
	Title: "Two clerks, one account",
	TTL:   1500 * time.Millisecond,
	Play:  play,
}

func main() { program.Main() }

func play(ctx context.Context, s *demo.Stage) error {
	path, err := s.Path("bank.db")
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	for _, name := range []string{"without", "with"} {
		s.Say("%s the guard:", name)
		a := account{db: db, id: name + " the guard", guarded: name == "with"}
		if err := a.open(ctx); err != nil {
			return err
		}
		late, err := accident(ctx, s, a)
		if err != nil {
			return err
		}
		balance, _, err := a.look(ctx)
		if err != nil {
			return err
		}
		s.Say("the balance is %d", balance)
		if a.guarded {
			s.Promise(errors.Is(late, locker.ErrLost) && balance == 150, "the late write was refused, no money was lost: 100 + 50 = %d", balance)
		}
	}
	return nil
}

// accident has the first clerk add 30 and the second 50, as told above. It returns what
// became of the first's write.
func accident(ctx context.Context, s *demo.Stage, a account) (late, err error) {
	first, err := s.Open("first clerk", locker.Fenced())
	if err != nil {
		return nil, err
	}
	defer first.Close()
	second, err := s.Open("second clerk", locker.Fenced())
	if err != nil {
		return nil, err
	}
	defer second.Close()

	// A process that is paused does not renew; this one runs, so that its lease must not.
	lease, err := first.Mutex(a.id, locker.NoRenewal()).Lock(ctx)
	if err != nil {
		return nil, err
	}
	balance, err := a.read(ctx, lease.Token())
	if err != nil {
		return nil, err
	}
	s.Say("  the first clerk reads %d, sees that it holds the lock (%v), and is paused", balance, lease.Valid())

	err = second.Do(ctx, a.id, func(ctx context.Context) error {
		lease, _ := locker.FromContext(ctx)
		balance, err := a.read(ctx, lease.Token())
		if err != nil {
			return err
		}
		s.Say("  the second clerk has the lock, reads %d and writes %d", balance, balance+50)
		return a.write(ctx, balance+50, lease.Token())
	})
	if err != nil {
		return nil, err
	}
	s.Say("  the first clerk goes on and writes %d", balance+30)
	if late = a.write(ctx, balance+30, lease.Token()); late != nil {
		s.Say("  it is told: %v", late)
	}
	// What it would have been told, had it asked once more.
	if lease.Valid() {
		return nil, errors.New("a lease is valid that cannot be")
	}
	return late, nil
}
