package scenarios

import (
	"fmt"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/report"
)

// Many goroutines lock keys of their own at the same time, through one locker.

var parallelScenario = Scenario{
	Name: "parallel",
	Full: Plan{Rounds: 4, Window: time.Second},
	Short: Plan{Rounds: 2, Window: 300 * time.Millisecond, Match: "goroutines=128",
		Only: "floor/goredis,floor/rueidis,floor/redigo,redsync/goredis,redislock/goredis,rueidislock/tuned,golocker/goredis,golocker/rueidis,golocker/redigo"},
	Table: report.Table{
		Title: "goroutines each with keys of their own, one locker",
		Columns: []report.Column{
			{Key: "ops", Label: "pairs/s"},
			{Key: "p50", Label: "p50 µs", Scale: 1e-3},
			{Key: "p99", Label: "p99 µs", Scale: 1e-3},
			{Key: "cpu100k", Label: "client CPU s/100k pairs", Prec: 2},
			{Key: "srv100k", Label: "server CPU s/100k", Prec: 2},
			{Key: "allocs", Label: "allocs/pair", Prec: 1},
			{Key: "sent", Label: "cmds sent/pair", Prec: 2},
			{Key: "reads", Label: "server reads/pair", Prec: 2},
			{Key: "clients", Label: "conns"},
			{Key: "errors", Label: "errors", Pick: report.Ever},
			{Key: "stuck", Label: "stuck on a free key", Pick: report.Ever},
			{Key: "leaked", Label: "keys leaked", Pick: report.Ever},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
		Ratios: []report.Ratio{
			{Key: "ops", Label: "pairs/s × floor/goredis", To: report.WithContestant("floor/goredis")},
		},
	},
	run: func(e *Env, p Plan) error {
		if _, err := e.server(); err != nil {
			return err
		}
		for _, g := range []int{16, 128, 1024} {
			err := e.rounds(p, "parallel", fmt.Sprintf("goroutines=%d", g), contestants.UseFree, func(s contestants.Spec) (Result, error) {
				return e.pairs(s, g, p.Window)
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
}
