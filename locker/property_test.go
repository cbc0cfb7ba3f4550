package locker

import (
	flags "flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"
)

// kindsOfHistories are the locks that histories are about: which modes come up on one
// name.
var kindsOfHistories = map[string][]mode{
	"mutex":      {modeMutex},
	"reentrant":  {modeReentrant},
	"read-write": {modeRead, modeWrite},
	"mixed":      {modeMutex, modeReentrant, modeRead, modeWrite},
}

// withoutRaceDetector skips a test that takes long under the race detector, which has little to find
// in it. make histories runs those that call it, and those of which more is tested without: who calls
// what is named there.
func withoutRaceDetector(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("the race detector makes it slow")
	}
}

// histories is how many a test run replays, a quarter of each kind. HISTORIES sets
// another number. Without it they are the same in every run. The race detector, which has
// little to find here, makes them slow; so make histories replays all of them without it.
func histories() int {
	if n, err := strconv.Atoi(os.Getenv("HISTORIES")); err == nil {
		return n
	}
	if underRace {
		return 100
	}
	return 1000
}

func seedOfHistories() string {
	if os.Getenv("HISTORIES") == "" {
		return "1"
	}
	return "0" // a new one in each run
}

// setHistories sets what rapid offers flags for only. Those on the command line win.
func setHistories() {
	for name, value := range map[string]string{
		"rapid.checks":     strconv.Itoa(histories() / len(kindsOfHistories)),
		"rapid.nofailfile": "true", // the seed is in the log
		"rapid.seed":       seedOfHistories(),
	} {
		if err := flags.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// Random histories of many owners, modes, crashes, duplicates and expiries go as the
// model says.
func TestHistories(t *testing.T) {
	smallPortions(t)
	for name, modes := range kindsOfHistories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			histories := drawHistory(modes)
			rapid.Check(t, func(rt *rapid.T) {
				if err := replayFake(t, histories.Draw(rt, "history")); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// replayFake replays h on an embedded server, whose clock is the bubble's.
func replayFake(t *testing.T, h history) (err error) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		defer m.Close()
		var r *replay
		if r, err = newReplay(t.Context(), &fakeDeployment{Miniredis: m, dial: m.Dial}, "k", historyStep, 0); err != nil {
			return
		}
		err = r.run(t.Context(), h)
		r.close()
		if err != nil {
			return
		}
		// The ids given up stay for a minute, the last fencing token for a day.
		time.Sleep(3 * time.Minute)
		for _, key := range m.Keys() {
			if key != r.keys.fence {
				err = r.failure("", fmt.Sprintf("%s is left", key))
			}
		}
		time.Sleep(25 * time.Hour)
		if keys := m.Keys(); len(keys) > 0 {
			err = r.failure("", fmt.Sprintf("%s are left", keys))
		}
	})
	return err
}
