package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares what is shown with a file in testdata.
func golden(t *testing.T, name string, shown []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, shown, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(shown), "%s; go test -run Golden -update writes it anew", path)
}

// someLocks are of every kind.
func someLocks() []lockView {
	return []lockView{
		viewOf("nightly-report", locker.Status{Holders: []locker.Holder{{
			Mode: locker.Exclusive, Holds: 1, Label: "web-1:4711", Metadata: "report.sh", Remaining: 27900 * time.Millisecond,
		}}, Waiters: 2}),
		viewOf("orders:42", locker.Status{Holders: []locker.Holder{{
			Mode: locker.Exclusive, Holds: 2, Owner: "job-7", Label: "web-2:12", Token: 1795302900472025, Remaining: 1234 * time.Millisecond,
		}}}),
		viewOf("catalogue", locker.Status{Holders: []locker.Holder{
			{Mode: locker.Reading, Holds: 1, Owner: "b", Label: "web-2:12", Remaining: 8 * time.Second, Metadata: "<export & co>"},
			{Mode: locker.Reading, Holds: 1, Owner: "a", Label: "web-1:4711", Remaining: 9 * time.Second},
		}, Waiters: 1}),
		viewOf("odd\x1b[2Jname", locker.Status{Holders: []locker.Holder{{
			Mode: locker.Exclusive, Holds: 1, Label: "x", Metadata: "two\nlines", Remaining: time.Minute,
		}}}),
		viewOf("redsync", locker.Status{Holders: []locker.Holder{{Mode: locker.Exclusive, Holds: 1, Foreign: true, Remaining: 5 * time.Second}}}),
	}
}

func TestGoldenLocks(t *testing.T) {
	var table, lock, free, screen bytes.Buffer
	require.NoError(t, writeTable(&table, someLocks()))
	golden(t, "ls.txt", table.Bytes())

	for _, l := range someLocks() {
		require.NoError(t, writeLock(&lock, l))
		lock.WriteString("\n")
	}
	golden(t, "show.txt", lock.Bytes())
	require.NoError(t, writeLock(&free, viewOf("nobody's", locker.Status{})))
	golden(t, "show-free.txt", free.Bytes())

	s := snapshot{At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Locks: someLocks(), Error: "locker: server unavailable"}
	screen.WriteString(s.text("x"))
	s.Error = ""
	screen.WriteString(s.text("x"))
	golden(t, "watch.txt", screen.Bytes())

	var list, one bytes.Buffer
	require.NoError(t, (&tool{streams: streams{out: &list}}).writeJSON(someLocks()))
	golden(t, "ls.json", list.Bytes())
	require.NoError(t, (&tool{streams: streams{out: &one}}).writeJSON(viewOf("nobody's", locker.Status{})))
	golden(t, "show-free.json", one.Bytes())
}

// servers are those that doctor has something to say about.
func servers() map[string]facts {
	healthy := func() facts {
		return facts{
			server: "10.0.0.1:6379", trip: 400 * time.Microsecond, offset: 20 * time.Microsecond,
			info:   map[string]string{"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "maxmemory": "0", "aof_enabled": "1", "role": "master", "connected_slaves": "0"},
			config: map[string]string{"appendfsync": "always", "save": "", "min-replicas-to-write": "0"},
		}
	}
	cache := healthy()
	cache.info["maxmemory_policy"], cache.info["maxmemory"] = "allkeys-lru", "104857600"
	cache.info["aof_enabled"], cache.info["connected_slaves"] = "0", "2"
	cache.offset = 3 * time.Second
	old := healthy()
	old.info["redis_version"], old.info["maxmemory_policy"] = "5.0.14", "volatile-lru"
	old.config["appendfsync"], old.offset = "everysec", -2*time.Second
	replica := healthy()
	replica.info["role"], replica.info["master_host"], replica.info["master_port"] = "slave", "10.0.0.9", "6379"
	snapshots := healthy()
	snapshots.info["aof_enabled"], snapshots.config["save"] = "0", "3600 1"
	everysec := healthy()
	everysec.config["appendfsync"], everysec.config["save"] = "everysec", "3600 1"
	unsynced := healthy()
	unsynced.config["appendfsync"] = "no"
	deserted := healthy()
	deserted.config["min-replicas-to-write"], deserted.config["min-replicas-max-lag"] = "1", "10"
	saved := healthy() // by hand: it is read when the server starts
	saved.info["aof_enabled"], saved.info["rdb_saves"] = "0", "2"
	noConfig := healthy()
	noConfig.info["aof_enabled"], noConfig.config = "0", map[string]string{}
	denied := driver.NewServerError("NOPERM this user has no permissions to run the command")
	secretive := facts{
		server: "managed.example.com:6379", trip: 2 * time.Millisecond,
		infoErr: denied, configErr: denied, subscribeErr: denied, publishErr: denied, scanErr: denied, config: map[string]string{},
	}
	down := facts{server: "10.0.0.2:6379", down: errors.New("dial tcp 10.0.0.2:6379: connect: connection refused")}
	sentinel := facts{server: "10.0.0.1:26379", timeErr: driver.NewServerError("ERR unknown command 'TIME'"), info: map[string]string{"redis_version": "7.0.15", "redis_mode": "sentinel"}}
	valkeySentinel := sentinel
	valkeySentinel.info = map[string]string{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "9.1.2", "server_mode": "sentinel"}
	return map[string]facts{
		"sentinel": sentinel, "valkey-sentinel": valkeySentinel, "healthy": healthy(), "cache": cache, "old": old, "replica": replica, "secretive": secretive, "down": down,
		"snapshots": snapshots, "everysec": everysec, "unsynced": unsynced, "deserted": deserted, "saved": saved, "no-config": noConfig,
	}
}

func TestGoldenDoctor(t *testing.T) {
	for name, f := range servers() {
		for _, quorum := range []bool{false, true} {
			if quorum {
				name = "quorum-" + name
			}
			d := diagnosisOf([]patient{{f.server, f.assess(quorum)}})
			var text, js bytes.Buffer
			require.NoError(t, d.write(&text))
			golden(t, "doctor-"+name+".txt", text.Bytes())
			if name == "cache" {
				require.NoError(t, (&tool{streams: streams{out: &js}}).writeJSON(d))
				golden(t, "doctor.json", js.Bytes())
			}
		}
	}
}

// All that is said of locks holds on the oldest server that is supported: leases are renewed there
// when the memory is full, too.
func TestDoctorHasNothingToSayOfAVersionThatIsSupported(t *testing.T) {
	for version, want := range map[string]level{"5.0.14": problem, "6.0.16": fine, "6.2.14": fine, "7.0.15": fine, "8.6.3": fine} {
		f := facts{info: map[string]string{"redis_version": version}}
		assert.Equal(t, want, f.version().Level, version)
		assert.Equal(t, want != fine, f.version().Means != "", version)
	}
}

func TestClocksAreComparedWithEachOther(t *testing.T) {
	at := func(offset time.Duration) facts {
		return facts{server: offset.String(), offset: offset, trip: time.Millisecond}
	}
	lone := assessClocks([]facts{at(time.Hour), {down: errors.New("down")}}, false)
	assert.Empty(t, lone, "one clock cannot be compared")
	for _, test := range []struct {
		apart  time.Duration
		quorum bool
		want   level
	}{
		{10 * time.Millisecond, false, fine},
		{-10 * time.Millisecond, true, fine},
		{2 * time.Second, false, warning},
		{-2 * time.Second, true, warning},
		{time.Minute, false, warning},
		{time.Minute, true, problem},
	} {
		found := assessClocks([]facts{at(0), at(test.apart)}, test.quorum)
		require.Len(t, found, 1)
		assert.Equal(t, test.want, found[0].Level, "%v", test)
	}
}

func TestExitCodesOfErrors(t *testing.T) {
	for code, err := range map[int]error{
		0:               nil,
		exitUsage:       locker.ErrInvalid,
		exitForeign:     &locker.ForeignError{},
		exitNotHad:      &locker.WaitError{Cause: locker.ErrWaitTimeout, Reason: &locker.LockedError{}},
		exitUnreachable: &locker.WaitError{Cause: locker.ErrWaitTimeout, Reason: locker.ErrUnavailable},
		exitLost:        &locker.LostError{},
		exitRefused:     driver.NewServerError("OOM command not allowed"),
		exitFailed:      errors.New("anything else"),
		9:               &exitError{9, nil},
	} {
		assert.Equal(t, code, exitCode(err), "%v", err)
	}
	assert.Equal(t, exitUnreachable, exitCode(&locker.WaitError{Cause: locker.ErrWaitTimeout}), "nobody has said that the lock is held")
	assert.Equal(t, exitUnreachable, exitCode(locker.ErrUnknown), "nobody has said whether it was done")
	assert.Equal(t, exitUsage, exitCode(driver.ErrUnsupported))
	assert.Equal(t, exitLost, exitCode(locker.ErrNotHeld))
}

// What is wrong with several servers, or twice with one, is a line each and not one that is
// quoted as if it were a name.
func TestAComplaintOfSeveralLines(t *testing.T) {
	var errs bytes.Buffer
	tool := &tool{streams: streams{err: &errs}}
	tool.complain(errors.Join(errors.New("one"), errors.New("an odd \x1b[2J one")))
	assert.Equal(t, "lockctl: one\nlockctl: \"an odd \\x1b[2J one\"\n", errs.String())
}

func TestEventsHaveStableNames(t *testing.T) {
	text, err := json.Marshal(event{Event: "acquired", Key: "k", Token: 7, WaitedMS: 12})
	require.NoError(t, err)
	assert.JSONEq(t, `{"event":"acquired","key":"k","token":7,"waited_ms":12}`, string(text))
}
