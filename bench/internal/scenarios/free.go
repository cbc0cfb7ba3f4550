package scenarios

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
)

// One goroutine locks and unlocks keys that nobody else wants.

var freeScenario = Scenario{
	Name: "free",
	Full: Plan{Rounds: 7, Window: time.Second},
	Short: Plan{Rounds: 3, Window: 300 * time.Millisecond,
		Only: "floor/tcp,floor/goredis,floor/rueidis,floor/redigo,redsync/goredis,redislock/goredis,rueidislock/tuned,golocker/*"},
	Table: report.Table{
		Title: "1 goroutine, Lock and Unlock of a free key (ping: one PING)",
		Columns: []report.Column{
			{Key: "ops", Label: "pairs/s"},
			{Key: "p50", Label: "p50 µs", Scale: 1e-3, Prec: 1},
			{Key: "p99", Label: "p99 µs", Scale: 1e-3, Prec: 1},
			{Key: "lock_p50", Label: "Lock p50 µs", Scale: 1e-3, Prec: 1},
			{Key: "unlock_p50", Label: "Unlock p50 µs", Scale: 1e-3, Prec: 1},
			{Key: "allocs", Label: "allocs/pair", Prec: 1},
			{Key: "bytes", Label: "B/pair"},
			{Key: "sent", Label: "cmds sent/pair", Prec: 2},
			{Key: "lua", Label: "cmds in Lua/pair", Prec: 2},
			{Key: "net_in", Label: "wire to server B"},
			{Key: "net_out", Label: "from server B"},
			{Key: "cpu_us", Label: "client CPU µs/pair", Prec: 1},
			{Key: "srv_us", Label: "server CPU µs/pair", Prec: 1},
			{Key: "errors", Label: "errors", Pick: report.Ever},
			{Key: "stuck", Label: "stuck on a free key", Pick: report.Ever},
			{Key: "leaked", Label: "keys leaked", Pick: report.Ever},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
		Ratios: []report.Ratio{
			{Key: "p50", Label: "p50 × floor/tcp", To: report.WithContestant("floor/tcp")},
			{Key: "p50", Label: "p50 × same client's floor", To: SameClientFloor},
			{Key: "allocs", Label: "allocs above same client's floor", To: SameClientFloor, Above: true},
		},
	},
	run: func(e *Env, p Plan) error {
		if _, err := e.server(); err != nil {
			return err
		}
		for _, s := range contestants.For(contestants.UseFree, p.Only) {
			trace, err := e.checkReal(s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			fmt.Fprintf(e.Log, "  %s sends: %s\n", s.Name, trace)
		}
		return e.rounds(p, "free", "goroutines=1", contestants.UseFree|contestants.UsePing, func(s contestants.Spec) (Result, error) {
			return e.pairs(s, 1, p.Window)
		})
	},
}

// checkReal makes sure that a contestant locks at all: a key on the server while it
// holds, nothing for a second one, and no key afterwards. It returns the commands of
// one pair.
func (e *Env) checkReal(s contestants.Spec) (commands string, err error) {
	if err := e.srv.Flush(); err != nil {
		return "", err
	}
	l, err := s.New(e.options())
	if err != nil {
		return "", err
	}
	defer l.Close()
	ctx := context.Background()
	unlock, err := l.Lock(ctx, "real")
	if err != nil {
		return "", err
	}
	if n, err := e.srv.Left(); err != nil || n == 0 {
		return "", errors.Join(err, errors.New("it holds a lock and there is no key on the server"))
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := l.Lock(short, "real"); err == nil {
		return "", errors.New("a held lock could be taken again")
	}
	if err := unlock(); err != nil {
		return "", fmt.Errorf("unlock: %w", err)
	}
	if err := e.awaitEmpty(s); err != nil {
		return "", err
	}
	if err := warmPairs(l, 3); err != nil {
		return "", err
	}
	commands, _, err = e.srv.Trace(func() {
		err = warmPairs(l, 1)
		time.Sleep(20 * time.Millisecond) // some delete their keys after Unlock has returned
	})
	return commands, err
}

// awaitEmpty waits until a contestant has left no keys behind.
func (e *Env) awaitEmpty(s contestants.Spec) error {
	for deadline := harness.Now() + int64(time.Second); ; time.Sleep(5 * time.Millisecond) {
		n, err := e.srv.Left(s.Passing...)
		if n == 0 || err != nil {
			return err
		}
		if harness.Now() > deadline {
			return fmt.Errorf("%d keys are left after Unlock", n)
		}
	}
}
