package bars

import (
	"github.com/golocker/golocker/bench/internal/report"
	"github.com/golocker/golocker/bench/internal/scenarios"
)

// Who has to meet a bar.
var (
	plain  = []string{"golocker/goredis", "golocker/rueidis", "golocker/redigo"}
	fenced = []string{"golocker/goredis+fenced", "golocker/rueidis+fenced", "golocker/redigo+fenced"}

	goredisPlain = plain[:1]
	rueidisPlain = plain[1:2]
	redigoPlain  = plain[2:]

	goredisQuorum = []string{"golocker/goredis+quorum", "golocker/goredis+fenced+quorum"}
	rueidisQuorum = []string{"golocker/rueidis+quorum", "golocker/rueidis+fenced+quorum"}
	redigoQuorum  = []string{"golocker/redigo+quorum", "golocker/redigo+fenced+quorum"}
	quorums       = append(append(goredisQuorum[:2:2], rueidisQuorum...), redigoQuorum...)
)

// What they are compared with.
var (
	floorGoredis = report.WithContestant("floor/goredis")
	floorBlpop   = report.WithContestant("floor/blpop")
	sameClient   = scenarios.SameClientFloor
	failFast     = scenarios.SameClientFailFast
	healthy      = scenarios.Healthy
)

// Units of metrics.
const (
	ms      = 1e6 // of those in nanoseconds
	percent = 0.01
)

// list is every bar.
var list = []row{
	{"free", "goroutines=1", plain, "p50 × hand-written on the client", times("p50", sameClient), atMost(1.05)},
	{"free", "goroutines=1", plain, "allocations above hand-written", above("allocs", sameClient), atMost(10)},
	{"free", "goroutines=1", fenced, "p50 × hand-written on the client", times("p50", sameClient), atMost(1.12)},

	{"parallel", "goroutines=128", goredisPlain, "pairs/s × hand-written go-redis", times("ops", floorGoredis), atLeast(1.8)},
	{"parallel", "goroutines=128", redigoPlain, "pairs/s × hand-written go-redis", times("ops", floorGoredis), atLeast(1.8)},
	{"parallel", "goroutines=128", rueidisPlain, "pairs/s × hand-written go-redis", times("ops", floorGoredis), atLeast(2.0)},
	{"parallel", "goroutines=1024", plain, "pairs/s × hand-written go-redis", times("ops", floorGoredis), atLeast(2.7)},

	{"contend", "goroutines=16 cs=0", plain, "acquisitions/s", value("ops", 1), atLeast(300_000)},
	{"contend", "goroutines=16 cs=0", plain, "Jain", value("jain", 1), atLeast(0.95)},

	{"procs", "procs=2 goroutines=16 cs=0", plain, "acquisitions/s", value("ops", 1), atLeast(60_000)},
	{"procs", "procs=2 goroutines=16 cs=0", plain, "Jain of the processes", value("jain_procs", 1), atLeast(0.95)},
	{"procs", "procs=32 cs=1ms", plain, "acquisitions/s × BLPOP", times("ops", floorBlpop), atLeast(0.94)},
	{"procs", "procs=32 cs=1ms", plain, "hand-off p50 × BLPOP", times("hand_p50", floorBlpop), atMost(1.7)},
	{"procs", "procs=32 cs=1ms", plain, "wait p99 × BLPOP", times("wait_p99", floorBlpop), atMost(1.15)},
	{"procs", "procs=32 cs=1ms", plain, "Jain", value("jain", 1), atLeast(0.99)},
	{"procs", "procs=32 cs=1ms", plain, "commands per acquisition", value("sent", 1), atMost(2.3)},
	{"procs", "procs=32 cs=0", plain, "acquisitions/s × BLPOP", times("ops", floorBlpop), atLeast(0.6)},
	{"procs", "procs=32 cs=0", plain, "Jain", value("jain", 1), atLeast(0.99)},

	{"held", "locks=100000 ttl=10s", plain, "B of heap and stack per lock", value("heap", 1), atMost(1024)},
	{"held", "locks=100000 ttl=10s", plain, "goroutines in all", value("goroutines", 1), atMost(32)},
	{"held", "locks=100000 ttl=10s", plain, "client CPU, % of a core", value("cpu_pct", 1), atMost(12)},
	{"held", "locks=100000 ttl=10s", plain, "least TTL left, %", least("ttl_min", percent), atLeast(10)},
	{"held", "locks=100000 ttl=10s", plain, "keys lost", worst("lost", 1), atMost(0)},
	{"held", "locks=100000 ttl=10s", plain, "locks lost", worst("gone", 1), atMost(0)},

	{"waiters", "waiters=1000", plain, "commands/s", value("sent_s", 1), atMost(2)},
	{"waiters", "waiters=1000", plain, "B of heap and stack per waiter", value("heap", 1), atMost(4.5 * 1024)},
	{"waiters", "waiters=1000", plain, "release to first holder, ms", value("wake", ms), atMost(0.2)},
	{"waiters", "waiters=1000", plain, "acquisitions/s of the drain", value("drain", 1), atLeast(200_000)},

	{"quorum", "fault=none goroutines=1", quorums, "p50 × redsync fail-fast on the client", times("p50", failFast), atMost(1.1)},
	{"quorum", "fault=none goroutines=16", goredisQuorum, "pairs/s × redsync fail-fast on the client", times("ops", failFast), atLeast(1.4)},
	{"quorum", "fault=none goroutines=16", rueidisQuorum, "pairs/s × redsync fail-fast on the client", times("ops", failFast), atLeast(1.0)},
	{"quorum", "fault=hung goroutines=1", quorums, "p50 × all servers well", times("p50", healthy), atMost(1.15)},
	{"quorum", "fault=dead goroutines=1", quorums, "p50 × all servers well", times("p50", healthy), atMost(1.15)},
	{"quorum", "fault=hung goroutines=16", quorums, "p50 × all servers well", times("p50", healthy), atMost(1.15)},
	{"quorum", "fault=dead goroutines=16", quorums, "p50 × all servers well", times("p50", healthy), atMost(1.15)},
	{"quorum", "fault=hung goroutines=1", quorums, "goroutines at most", worst("goroutines", 1), atMost(200)},
	{"quorum", "fault=dead goroutines=1", quorums, "goroutines at most", worst("goroutines", 1), atMost(200)},
	{"quorum", "fault=hung goroutines=16", quorums, "goroutines at most", worst("goroutines", 1), atMost(200)},
	{"quorum", "fault=dead goroutines=16", quorums, "goroutines at most", worst("goroutines", 1), atMost(200)},
}
