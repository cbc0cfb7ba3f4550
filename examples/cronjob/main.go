// Cronjob runs a job of three hosts' crontabs on one of them at a time. The hosts have
// the same schedule, and clocks that differ a little; the report is to be sent once at
// each tick, not three times, and not never because the one host that has the job is
// down.
//
//	go run ./examples/cronjob
//	go run ./examples/cronjob -driver rueidis -url redis://localhost:6379/0
//
// Two things make it work, and neither does alone:
//
//   - A lock on the job, so that no two hosts do it at the same time.
//   - A look, under the lock, at what has been done. A host whose clock is late gets the
//     lock when the first has released it. The lock only says that nobody sends the
//     report now; that it has been sent is for the place to say where the reports are
//     (here a file that stands for a table with the primary key "tick").
//
// It is tempting to leave out the second, to lock "report:<tick>" and never to unlock:
// the key's TTL then guesses how much the clocks differ. It is wrong as soon as a host
// is later than that, and a host that crashes takes the report with it.
//
// Here one host crashes in the middle of a report. The others wait for the lock with
// [locker.Client.Do], so one of them finds the report unsent when the lease has run out,
// and sends it.
//
// What is left is the crash between sending a report and writing down that it was sent:
// then it is sent twice. Where that matters, give the report an id that the receiver
// knows again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
)

const (
	ticks    = 6
	interval = 250 * time.Millisecond // a cron has a minute
	crash    = 3                      // the tick at which a host crashes
)

var program = demo.Program{
	Name:  "cronjob",
	Title: "Three hosts, one job",
	TTL:   1500 * time.Millisecond,
	Play:  play,
	Parts: map[string]func(context.Context, *demo.Part) error{"host": host},
}

func main() { program.Main() }

func play(ctx context.Context, s *demo.Stage) error {
	journal, err := s.Journal()
	if err != nil {
		return err
	}
	start := time.Now().Add(200 * time.Millisecond).UnixNano()
	var hosts []*exec.Cmd
	for i, skew := range []time.Duration{0, 20 * time.Millisecond, 120 * time.Millisecond} {
		name := fmt.Sprintf("host %d", i+1)
		h, err := s.Start(ctx, "host", name, string(journal), strconv.FormatInt(start+int64(skew), 10))
		if err != nil {
			return err
		}
		hosts = append(hosts, h)
	}
	crashed := 0
	for _, h := range hosts {
		if h.Wait() != nil {
			crashed++
		}
	}

	sentOnce := 0
	for tick := 1; tick <= ticks; tick++ {
		n, err := journal.Count(sent(tick))
		if err != nil {
			return err
		}
		if n == 1 {
			sentOnce++
		}
	}
	begun, err := journal.Count(begun(crash))
	if err != nil {
		return err
	}
	s.Print("\n")
	s.Promise(sentOnce == ticks, "%d of %d reports were sent exactly once", sentOnce, ticks)
	s.Promise(crashed == 1 && begun == 2, "of %d hosts %d crashed, and its report %d was sent by another", len(hosts), crashed, crash)
	return nil
}

func begun(tick int) string { return fmt.Sprintf("report %d begun", tick) }
func sent(tick int) string  { return fmt.Sprintf("report %d sent", tick) }

// host is one host's cron.
func host(ctx context.Context, p *demo.Part) error {
	client, err := p.Open(p.Name)
	if err != nil {
		return err
	}
	defer client.Close()
	start, err := strconv.ParseInt(p.Args[1], 10, 64)
	if err != nil {
		return err
	}
	for tick := 1; tick <= ticks; tick++ {
		if err := sleep(ctx, time.Until(time.Unix(0, start).Add(time.Duration(tick)*interval))); err != nil {
			return err
		}
		err := locker.ErrLost
		for errors.Is(err, locker.ErrLost) { // then the report may be somebody else's by now: look again
			err = client.Do(ctx, "cron:report", func(ctx context.Context) error {
				return report(ctx, p, demo.Journal(p.Args[0]), tick)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// report sends the report of a tick unless it has been sent. It runs under the lock.
func report(ctx context.Context, p *demo.Part, journal demo.Journal, tick int) error {
	lines, err := journal.Lines()
	if err != nil {
		return err
	}
	history := strings.Join(lines, "\n")
	if strings.Contains(history, sent(tick)) {
		return nil // by another host
	}
	if err := journal.Write("%s", begun(tick)); err != nil {
		return err
	}
	if tick == crash && !strings.Contains(history, begun(tick)) {
		p.Say("crashes while it sends report %d; its lease has to run out", tick)
		p.Crash()
	}
	// ctx ends if the lock is lost: then another host is about to begin.
	if err := sleep(ctx, 30*time.Millisecond); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	p.Say("sends report %d", tick)
	return journal.Write("%s", sent(tick))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
