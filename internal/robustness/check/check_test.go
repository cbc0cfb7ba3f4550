package check_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/check"
	"github.com/golocker/golocker/internal/robustness/history"
)

// ms is the unit of the times in these histories, which begin at 1.
const ms = history.Time(time.Millisecond)

// script writes down a history: each line is the time in ms, the worker (whose process is
// its first letter), what happens, and what more there is to tell: mode=, token=, since=,
// deadline=, try, owner=, error=, class=, accepted, ttl=, and from= the last operation of
// another worker.
func script(t *testing.T, lines ...string) []history.Event {
	t.Helper()
	var events []history.Event
	ops := map[string]int{}
	modes := map[string]history.Event{}
	for _, line := range lines {
		words := strings.Fields(line)
		require.GreaterOrEqual(t, len(words), 3, line)
		e := history.Event{At: at(t, words[0]), Worker: words[1], What: history.What(words[2]), Name: "k"}
		if e.What == history.Asked {
			ops[e.Worker]++
			delete(modes, e.Worker)
		}
		e.Op = ops[e.Worker]
		if was, ok := modes[e.Worker]; ok {
			e.Mode, e.Owner, e.Try = was.Mode, was.Owner, was.Try
		} else {
			e.Mode = history.Fenced
		}
		for _, word := range words[3:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "mode":
				e.Mode = history.Mode(value)
			case "token":
				e.Token = uint64(at(t, value) / ms)
			case "since":
				e.Since = at(t, value)
			case "deadline":
				e.Deadline = at(t, value)
			case "ttl":
				e.TTL = at(t, value)
			case "from":
				e.From = history.Operation{Worker: value, Op: ops[value]}
			case "try":
				e.Try = true
			case "owner":
				e.Owner = value
			case "error":
				e.Error = strings.ReplaceAll(value, "_", " ")
			case "class":
				e.Class = history.Class(value)
			case "accepted":
				e.Accepted = true
			case "fault":
				e.Fault, e.Worker, e.Name = value, "", ""
			case "probe":
				e.Worker = ""
			default:
				t.Fatalf("%q in %q", word, line)
			}
		}
		modes[e.Worker] = e
		events = append(events, e)
	}
	return events
}

func at(t *testing.T, text string) history.Time {
	t.Helper()
	d, err := time.ParseDuration(text + "ms")
	require.NoError(t, err)
	return history.Time(d)
}

// files writes the events to one file for each process.
func files(t *testing.T, events []history.Event) []string {
	t.Helper()
	dir := t.TempDir()
	logs := map[string]*history.Log{}
	var paths []string
	for _, e := range events {
		process := "parent"
		if e.Worker != "" {
			process = e.Worker[:1]
		}
		if logs[process] == nil {
			path := filepath.Join(dir, process)
			log, err := history.Create(path)
			require.NoError(t, err)
			t.Cleanup(func() { _ = log.Close() })
			logs[process] = log
			paths = append(paths, path)
		}
		require.NoError(t, logs[process].Add(e))
	}
	return paths
}

var lost = map[history.Law]string{history.Exclusion: "the data is lost"}

func round(files []string) check.Round {
	return check.Round{
		Files: files, LongestTTL: time.Second, Poll: 200 * time.Millisecond, Patience: 100 * time.Millisecond, Ordered: true,
		Effects: map[string]check.Effect{"flush": {Breaks: lost}, "noise": {}},
	}
}

func laws(list []check.Violation) []history.Law {
	var laws []history.Law
	for _, v := range list {
		laws = append(laws, v.Law)
	}
	return laws
}

func TestHistories(t *testing.T) {
	const probe = "9000 p probed probe since=8900"
	for name, c := range map[string]struct {
		lines   []string
		want    []history.Law
		excused []history.Law
	}{
		"one after the other": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a used since=9", "11 a unlocking", "12 a unlocked",
			"3 b asked", "12 b granted token=6", "20 b unlocking", "21 b unlocked",
		}},
		"both at once": {
			lines: []string{
				"1 a asked", "2 a granted token=5", "10 a used since=9", "11 a unlocking", "12 a unlocked",
				"3 b asked", "5 b granted token=6", "8 b used since=7", "20 b unlocking", "21 b unlocked",
			},
			want: []history.Law{history.Exclusion, check.Linearizable},
		},
		"both at once after a loss of data": {
			lines: []string{
				"1 p injected fault=flush",
				"1 a asked", "2 a granted token=5", "10 a used since=9", "11 a unlocking", "12 a unlocked",
				"3 b asked", "5 b granted token=6", "8 b used since=7", "20 b unlocking", "21 b unlocked",
				"30 p healed fault=flush",
			},
			excused: []history.Law{history.Exclusion, check.Linearizable},
		},
		"beside one who has lost it": {
			lines: []string{
				"1 a asked", "2 a granted", "10 a used since=9", "12 a ended class=lost",
				"3 b asked", "5 b granted", "8 b used since=7", "20 b unlocking", "21 b unlocked",
			},
			want: []history.Law{history.LossFirst, check.Linearizable},
		},
		"a pause between grant and use proves nothing": {lines: []string{
			"1 a asked", "2 a granted", "900 a ended class=lost",
			"3 b asked", "800 b granted", "820 b unlocking", "821 b unlocked",
		}},
		"readers share": {lines: []string{
			"1 a asked mode=read", "2 a granted token=5", "10 a used since=9", "11 a unlocking", "12 a unlocked",
			"3 b asked mode=read", "5 b granted token=5", "8 b used since=7", "20 b unlocking", "21 b unlocked",
		}},
		"a writer beside a reader": {
			lines: []string{
				"1 a asked mode=read", "2 a granted", "10 a used since=9", "11 a unlocking", "12 a unlocked",
				"3 b asked mode=write", "5 b granted", "8 b used since=7", "20 b unlocking", "21 b unlocked",
			},
			want: []history.Law{history.ReadWrite, check.Linearizable},
		},
		"an owner re-enters after another has had the lock by a loss of data": {
			lines: []string{
				"1 p injected fault=flush",
				"1 a1 asked mode=reentrant owner=x", "2 a1 granted token=5",
				"4 b asked mode=reentrant owner=y", "5 b granted token=6", "6 b unlocking", "7 b unlocked",
				"8 a2 asked mode=reentrant owner=x", "9 a2 granted token=5", "10 a2 unlocking", "11 a2 unlocked",
				"12 a1 unlocking", "13 a1 unlocked class=lost",
				"30 p healed fault=flush",
			},
			excused: []history.Law{check.Linearizable},
		},
		"an owner re-enters": {lines: []string{
			"1 a1 asked mode=reentrant owner=x", "2 a1 granted token=5", "3 a2 asked mode=reentrant owner=x", "4 a2 granted token=5",
			"8 a2 unlocking", "9 a2 unlocked", "10 a1 used since=9", "11 a1 unlocking", "12 a1 unlocked",
		}},
		"a smaller token": {
			lines: []string{
				"1 a asked", "2 a granted token=5", "3 a unlocking", "4 a unlocked",
				"5 b asked", "6 b granted token=4", "7 b unlocking", "8 b unlocked",
			},
			want: []history.Law{history.Fencing, check.Linearizable},
		},
		"a smaller token of one who waited": {
			lines: []string{
				"1 a asked", "2 a granted token=5", "3 a unlocking", "4 a unlocked",
				"1 b asked", "6 b granted token=4", "7 b unlocking", "8 b unlocked",
			},
			want: []history.Law{check.Linearizable, check.Linearizable},
		},
		"tokens that fit no order": {
			lines: []string{
				"1 a asked mode=read", "10 a granted token=7",
				"2 b asked mode=write", "30 b granted token=6", "40 b unlocking", "41 b unlocked",
			},
			want: []history.Law{check.Linearizable},
		},
		"a holder is refused": {
			lines: []string{"1 a asked", "2 a granted token=5", "4 a wrote since=3 ", "6 a used since=5", "7 a unlocking", "8 a unlocked"},
			want:  []history.Law{history.Exclusion},
		},
		"used after the deadline": {
			lines: []string{"1 a asked", "2 a granted deadline=500", "520 a used since=515 deadline=500", "530 a unlocking", "531 a unlocked"},
			want:  []history.Law{history.LossFirst},
		},
		"a deadline that nobody gave": {
			lines: []string{"1 a asked", "2 a granted deadline=1500", "5 a unlocking", "6 a unlocked"},
			want:  []history.Law{history.LossFirst},
		},
		"gone before its time": {
			lines: []string{"1 a asked", "2 a granted deadline=800", "400 a ended class=lost error=the_lease_is_gone_from_the_server"},
			want:  []history.Law{history.LossFirst},
		},
		"a sleeper on a free lock": {
			lines: []string{
				"1 a asked", "2 a granted", "3 a unlocking", "4 a unlocked",
				"2 b asked", "300 b granted", "310 b unlocking", "311 b unlocked",
			},
			want: []history.Law{history.Wakeup},
		},
		"a sleeper under a fault": {lines: []string{
			"1 a asked", "2 a granted", "3 p injected fault=noise", "3 a unlocking", "4 a unlocked", "5 p healed fault=noise",
			"2 b asked", "300 b granted", "310 b unlocking", "311 b unlocked",
		}},
		"a sleeper whom no fault excuses any more": {
			lines: []string{
				"1 a asked", "2 a granted", "3 p injected fault=noise", "3 a unlocking", "4 a unlocked", "5 p healed fault=noise",
				"2 b asked", "1400 b granted", "1410 b unlocking", "1411 b unlocked",
			},
			want: []history.Law{history.Wakeup},
		},
		"a sleeper until a fault comes": {
			lines: []string{
				"1 a asked", "2 a granted", "3 a unlocking", "4 a unlocked",
				"2 b asked", "200 p injected fault=noise", "290 p healed fault=noise", "300 b granted", "310 b unlocking", "311 b unlocked",
			},
			want: []history.Law{history.Wakeup},
		},
		"a lapsed lease is waited for": {lines: []string{
			"1 a asked", "2 a granted", "700 a ended class=lost", "2 b asked", "1000 b granted", "1010 b unlocking", "1011 b unlocked",
		}},
		"refused for nothing": {
			lines: []string{"1 a asked", "2 a granted", "3 a unlocking", "4 a unlocked", "5 b asked try", "6 b refused"},
			want:  []history.Law{check.Honest},
		},
		"refused beside one who may have got it": {lines: []string{
			"1 a asked try", "3 a failed class=unknown", "5 b asked try", "6 b refused",
		}},
		"released what somebody else had": {
			lines: []string{
				"1 a asked", "2 a granted", "3 a used since=2.5", "900 a unlocking", "901 a unlocked",
				"500 b asked", "501 b granted", "600 b unlocking", "601 b unlocked",
			},
			want: []history.Law{check.Honest, check.Linearizable},
		},
		"an owner takes the lock anew with its old token": {
			lines: []string{
				"1 a asked mode=reentrant owner=x", "2 a granted token=5", "10 a unlocking", "11 a unlocked",
				"20 b asked mode=reentrant owner=x", "21 b granted token=5", "30 b unlocking", "31 b unlocked",
			},
			want: []history.Law{history.Fencing},
		},
		"an owner re-enters after an inner hold has ended": {lines: []string{
			"1 a asked mode=reentrant owner=x", "2 a granted token=5", "10 a2 asked mode=reentrant owner=x", "11 a2 granted token=5",
			"20 a2 unlocking", "21 a2 unlocked", "30 a3 asked mode=reentrant owner=x", "31 a3 granted token=5", "40 a3 unlocking", "41 a3 unlocked",
			"50 a unlocking", "51 a unlocked",
		}},
		"a detached lease is taken up": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
			"100 b asked from=a try", "102 b granted token=6", "110 b used since=109", "111 b unlocking", "112 b unlocked",
			"50 c asked", "113 c granted token=7", "120 c unlocking", "121 c unlocked",
		}},
		// Those who waited all the time fit in before it, so that it is the one without a place.
		"a detached lease is forgotten after its worker has left it": {
			lines: []string{
				"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
				"100 p injected fault=flush",
				"1 b asked", "120 b granted token=6", "125 b ended class=lost",
				"1 c asked", "130 c granted token=7", "135 c ended class=lost",
				"200 p healed fault=flush",
			},
			excused: []history.Law{check.Linearizable},
		},
		"a detached lease lapses": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
			"50 c asked", "510 c granted token=7", "520 c unlocking", "521 c unlocked",
			"530 b asked from=a try", "531 b failed class=lost",
		}},
		"it was not certain that the lease was detached": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=500",
			"50 c asked", "60 c granted token=7", "70 c unlocking", "71 c unlocked",
		}},
		"a lease that could not be detached goes on": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500 class=unknown error=no_answer",
			"20 a unlocking", "21 a unlocked", "15 c asked", "22 c granted token=7", "70 c unlocking", "71 c unlocked",
		}},
		"beside one that was left on the server": {
			lines: []string{
				"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
				"50 c asked", "60 c granted token=7", "70 c used since=69", "71 c unlocking", "72 c unlocked",
			},
			want: []history.Law{history.Exclusion, check.Linearizable},
		},
		"between the one who left the lease and the one who took it up": {
			lines: []string{
				"1 a asked", "2 a granted token=5", "10 a detaching ttl=50", "12 a detached ttl=50",
				"70 c asked", "71 c granted token=6", "72 c used since=71.5", "73 c unlocking", "74 c unlocked",
				"80 b asked from=a try", "102 b granted token=7", "110 b used since=109", "111 b unlocking", "112 b unlocked",
			},
			want: []history.Law{history.Exclusion, check.Linearizable},
		},
		"while a lease is taken up": {
			lines: []string{
				"1 a asked mode=read", "2 a granted", "10 a detaching ttl=500", "12 a detached ttl=500",
				"20 b asked from=a try mode=read", "110 b granted", "120 b used since=119", "121 b unlocking", "122 b unlocked",
				"30 c asked mode=write", "40 c granted", "50 c used since=49", "51 c unlocking", "52 c unlocked",
			},
			want: []history.Law{history.ReadWrite, check.Linearizable},
		},
		"one lease is taken up twice": {
			lines: []string{
				"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
				"20 b asked from=a try", "22 b granted token=6", "30 b unlocking", "31 b unlocked",
				"40 c asked from=a try", "42 c granted token=7", "50 c unlocking", "51 c unlocked",
			},
			want: []history.Law{history.Exclusion},
		},
		"one lease is taken up twice after a loss of data": {
			lines: []string{
				"1 p injected fault=flush",
				"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
				"20 b asked from=a try", "22 b granted token=6", "30 b unlocking", "31 b unlocked",
				"40 c asked from=a try", "42 c granted token=7", "50 c unlocking", "51 c unlocked",
				"60 p healed fault=flush",
			},
			excused: []history.Law{history.Exclusion},
		},
		"an owner's lease is taken up with its old token": {
			lines: []string{
				"1 a asked mode=reentrant owner=x", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
				"20 b asked from=a try mode=reentrant owner=x", "22 b granted token=5", "30 b unlocking", "31 b unlocked",
			},
			want: []history.Law{history.Fencing},
		},
		"a detached lease is gone before its time": {
			lines: []string{
				"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
				"100 b asked from=a try", "102 b failed class=lost",
			},
			want: []history.Law{history.LossFirst},
		},
		"a detached lease is gone because of another who takes it up": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
			"99 b asked from=a try", "100 c asked from=a try", "102 c failed class=lost", "103 b failed class=unknown",
		}},
		"another has taken it up when it is found to be gone": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500",
			"99 b asked from=a try", "100 c asked from=a try", "101 c granted token=6", "102 b failed class=lost",
			"110 c unlocking", "111 c unlocked",
		}},
		"who takes it up in vain may have made it shorter": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=900", "12 a detached ttl=900",
			"20 b asked from=a try", "30 b failed class=unknown",
			"400 c asked", "401 c granted token=7", "410 c used since=409", "411 c unlocking", "412 c unlocked",
		}},
		"what was to be detached may be left besides": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=500", "12 a detached ttl=500 class=unknown error=no_answer",
			"20 a unlocking", "21 a unlocked", "100 c asked try", "101 c refused",
		}},
		"a detached lease keeps the lock from who waits": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=900", "12 a detached ttl=900",
			"20 c asked", "911 c granted token=7", "920 c unlocking", "921 c unlocked",
		}},
		"who takes it up in vain may put it back": {lines: []string{
			"1 a asked", "2 a granted token=5", "10 a detaching ttl=300", "12 a detached ttl=300",
			"290 b asked from=a try", "295 b failed class=unknown", "2200 c asked try", "2201 c refused",
		}},
		"a writer goes on to read, beside readers": {lines: []string{
			"1 a asked mode=write owner=x", "2 a granted token=5", "10 a used since=9",
			"12 a2 asked from=a try mode=read owner=x", "20 a2 granted token=5", "21 a unlocked class=unknown",
			"13 b asked mode=read owner=y", "19 b granted token=5", "30 b used since=29", "31 b unlocking", "32 b unlocked",
			"40 a2 used since=39", "41 a2 unlocking", "42 a2 unlocked",
		}},
		"a writer between a writer and its reading": {
			lines: []string{
				"1 a asked mode=write owner=x", "2 a granted token=5", "10 a used since=9",
				"12 a2 asked from=a try mode=read owner=x", "30 a2 granted token=6", "31 a unlocked class=unknown",
				"13 b asked mode=write owner=y", "15 b granted token=6", "20 b used since=19", "21 b unlocking", "22 b unlocked",
				"40 a2 used since=39", "41 a2 unlocking", "42 a2 unlocked",
			},
			want: []history.Law{history.ReadWrite, check.Linearizable},
		},
		"a reader before the writer goes on to read": {
			lines: []string{
				"1 a asked mode=write owner=x", "2 a granted token=5", "10 a used since=9",
				"12 a2 asked from=a try mode=read owner=x", "20 a2 granted token=5", "21 a unlocked class=unknown",
				"3 b asked mode=read owner=y", "5 b granted token=5", "11 b used since=10", "11.5 b unlocking", "12 b unlocked",
				"40 a2 used since=39", "41 a2 unlocking", "42 a2 unlocked",
			},
			want: []history.Law{history.ReadWrite, check.Linearizable},
		},
		"passed by a newcomer": {
			lines: []string{
				"1 a asked", "2 a granted", "300 a unlocking", "301 a unlocked", "5 b asked",
				"200 c asked", "301 c granted", "310 c unlocking", "311 c unlocked", "320 b granted", "330 b unlocking", "331 b unlocked",
			},
			want: []history.Law{history.Order},
		},
		"passed in the queue, when all faults are healed": {
			lines: []string{
				"1 d asked", "2 p injected fault=noise", "3 p healed fault=noise", "5 p probed probe since=4",
				"10 a asked", "11 a granted", "20 b asked", "22 b queued", "30 c asked", "40 a unlocking", "41 a unlocked",
				"42 c granted", "44 c unlocking", "45 c unlocked", "50 b granted", "51 b unlocking", "52 b unlocked",
			},
			want: []history.Law{history.Order},
		},
		"passed in the queue under a fault": {lines: []string{
			"10 a asked", "11 a granted", "20 b asked", "22 b queued", "30 c asked", "35 p injected fault=noise", "40 a unlocking", "41 a unlocked",
			"42 c granted", "44 c unlocking", "45 c unlocked", "47 p healed fault=noise", "50 b granted", "51 b unlocking", "52 b unlocked",
		}},
		"passed before it stood in the queue for certain": {lines: []string{
			"10 a asked", "11 a granted", "20 b asked", "32 b queued", "30 c asked", "40 a unlocking", "41 a unlocked",
			"42 c granted", "44 c unlocking", "45 c unlocked", "50 b granted", "51 b unlocking", "52 b unlocked",
		}},
		"passed where a lease may have run out": {lines: []string{
			"1 d asked", "10 a asked", "11 a granted", "20 b asked", "22 b queued", "30 c asked", "40 a unlocking", "41 a unlocked",
			"42 c granted", "44 c unlocking", "45 c unlocked", "50 b granted", "51 b unlocking", "52 b unlocked",
		}},
		"passed within the holder's process": {lines: []string{
			"1 a asked", "2 a granted", "300 a unlocking", "301 a unlocked", "5 b asked",
			"200 a2 asked", "301 a2 granted", "310 a2 unlocking", "311 a2 unlocked", "320 b granted", "330 b unlocking", "331 b unlocked",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := round(files(t, script(t, append(c.lines, probe)...))).Run()
			require.NoError(t, err)
			assert.Equal(t, c.want, laws(report.Violations), report.Violations)
			assert.Equal(t, c.excused, laws(report.Explained), report.Explained)
		})
	}
}
