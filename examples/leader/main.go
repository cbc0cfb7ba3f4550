// Leader elects one of three processes, lets it lead, and replaces it: first by a
// hand-over, as when the leader is deployed anew, and then because it crashes.
//
//	go run ./examples/leader
//	go run ./examples/leader -driver redigo -url redis://localhost:6379/0
//
// The election is a lock. Whoever has it leads; the others wait in [locker.Mutex.Lock],
// and the server's queue is the line of succession. There is no term that has to be
// extended by hand: the lease is renewed until it is unlocked, lost, or its process is
// gone.
//
//   - A leader that steps down unlocks, and that very message makes the next one leader:
//     milliseconds.
//   - A leader that crashes is replaced when its lease has run out: the TTL at most.
//     A short TTL means a short gap, and more renewals.
//   - While the server is away nobody is elected, and nobody gives up: a leader that has lost
//     the lead by that, or could not hand it over, follows again.
//   - A leader that is cut off is told by the context that [locker.Lease.Do] gives it before
//     anybody else can be elected. All it does is done under that context, which ends as well
//     when the process is told to stop.
//
// The fencing token is the number of the term, as in Raft: what the leader writes carries
// it, and who reads it can tell an old leader's words from the new one's. Followers ask
// for the leader's name by [locker.Mutex.TryLock] or [locker.Client.Inspect].
package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
)

const (
	terms = 3 // the first ends by hand-over, the second by a crash
	steps = 5 // of work in each term
)

var program = demo.Program{
	Name:  "leader",
	Title: "Three candidates, one leader",
	TTL:   1500 * time.Millisecond,
	Play:  play,
	Parts: map[string]func(context.Context, *demo.Part) error{"candidate": candidate},
}

func main() { program.Main() }

func play(ctx context.Context, s *demo.Stage) error {
	journal, err := s.Journal()
	if err != nil {
		return err
	}
	var candidates []*exec.Cmd
	for _, name := range []string{"anna", "boris", "chloe"} {
		c, err := s.Start(ctx, "candidate", name, string(journal))
		if err != nil {
			return err
		}
		candidates = append(candidates, c)
	}
	crashed := 0
	for _, c := range candidates {
		if c.Wait() != nil {
			crashed++
		}
	}
	lines, err := journal.Lines()
	if err != nil {
		return err
	}
	elections, ordered := check(lines)
	s.Print("\n")
	s.Promise(elections == terms, "%d terms, though a leader stepped down and %d crashed", elections, crashed)
	s.Promise(ordered && len(lines) == terms*(steps+1), "%d entries in the journal, and none by a leader after its successor's first", len(lines))
	return nil
}

// check counts the terms and tells whether none has an entry among those of a later one.
func check(lines []string) (elections int, ordered bool) {
	ordered = true
	var last uint64
	for _, line := range lines {
		var token uint64
		var text string
		if _, err := fmt.Sscanf(line, "%d %s", &token, &text); err != nil || token < last {
			ordered = false
		}
		if text == "elected" {
			elections++
			ordered = ordered && token > last
		}
		last = token
	}
	return elections, ordered
}

// candidate follows, leads, and follows again, until all terms are over.
func candidate(ctx context.Context, p *demo.Part) error {
	client, err := p.Open(p.Name, locker.Fenced())
	if err != nil {
		return err
	}
	defer client.Close()
	election := client.Mutex("election")
	for over := false; !over; {
		lease, err := follow(ctx, election, p.Say)
		if err != nil {
			return err
		}
		err = lease.Do(ctx, func(ctx context.Context) (err error) {
			over, err = lead(ctx, p, lease.Token(), demo.Journal(p.Args[0]))
			return err
		})
		switch {
		case errors.Is(err, locker.ErrLost):
			p.Say("has lost the lead and stops at once")
		case errors.Is(err, locker.ErrUnknown):
			p.Say("does not know whether the others were told; its lease runs out if not")
		case err != nil:
			return err
		}
	}
	return nil
}

// follow returns when the candidate is elected. It says whom it follows, if it can be told: an
// outage at that moment is waited out like one while another leads.
func follow(ctx context.Context, election *locker.Mutex, say func(format string, args ...any)) (*locker.Lease, error) {
	lease, err := election.TryLock(ctx)
	switch locked, ok := errors.AsType[*locker.LockedError](err); {
	case ok:
		say("follows %s", locked.Holder.Label)
	case errors.Is(err, locker.ErrUnavailable):
		say("cannot be told who leads")
	default:
		return lease, err
	}
	return election.Lock(ctx)
}

// lead leads for one term. It tells whether there are to be no more.
func lead(ctx context.Context, p *demo.Part, token locker.Token, journal demo.Journal) (over bool, err error) {
	history, err := journal.Lines()
	if err != nil {
		return false, err
	}
	term := 1 + strings.Count(strings.Join(history, "\n"), "elected")
	if term > terms {
		return true, nil
	}
	p.Say("is elected for term %d, token …%06d", term, token%1e6)
	if err := journal.Write("%d elected", token); err != nil {
		return false, err
	}
	for step := 1; step <= steps; step++ {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(30 * time.Millisecond): // the work
		}
		if err := journal.Write("%d step %d", token, step); err != nil {
			return false, err
		}
	}
	switch term {
	case 1:
		p.Say("hands over")
	case 2:
		p.Say("crashes; the others have to wait for the end of its lease")
		p.Crash()
	}
	return false, nil
}
