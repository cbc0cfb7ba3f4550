package locker

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// logged runs a test whose client logs, in a bubble. records gives what was logged since
// the last call.
func logged(t *testing.T, level slog.Level, test func(t *testing.T, f *fakeDeployment, c *Client, records func() []map[string]any), opts ...ClientOption) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var out bytes.Buffer
		c := f.client(t, append(opts, Logger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))))...)
		test(t, f, c, func() []map[string]any {
			synctest.Wait()
			var list []map[string]any
			for line := range strings.Lines(out.String()) {
				var r map[string]any
				require.NoError(t, json.Unmarshal([]byte(line), &r))
				delete(r, "time")
				list = append(list, r)
			}
			out.Reset()
			return list
		})
	})
}

func messages(records []map[string]any) (list []string) {
	for _, r := range records {
		list = append(list, r["level"].(string)+" "+r["msg"].(string))
	}
	return list
}

func TestLogOfALoss(t *testing.T) {
	logged(t, slog.LevelInfo, func(t *testing.T, f *fakeDeployment, c *Client, records func() []map[string]any) {
		lease, err := c.Mutex("orders:42", TTL(3*time.Second), Metadata("secret"), Fenced()).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		assert.Empty(t, records(), "all goes well")
		f.set(func() { f.before = refusesScript(mutexFamily.renew, errLostReply) })
		<-lease.Context().Done()
		list := records()
		require.NotEmpty(t, list)
		last := list[len(list)-1]
		for _, r := range list[:len(list)-1] {
			assert.Equal(t, "WARN renewal failed", messages([]map[string]any{r})[0])
			assert.Equal(t, errLostReply.Error(), r["error"])
		}
		delete(last, "held")
		assert.Equal(t, map[string]any{
			"level": "WARN", "msg": "lock lost", "lock": "orders:42", "mode": "exclusive", "outcome": "lost_deadline",
			"left": 0.0, "last_renewal": errLostReply.Error(),
		}, last)
		f.set(func() { f.before = nil })
	})
}

func TestLogNamesTheLockInOneAttributeOnly(t *testing.T) {
	logged(t, slog.LevelDebug, func(t *testing.T, f *fakeDeployment, c *Client, records func() []map[string]any) {
		const name = "customer:erika"
		lease, err := c.Mutex(name, TTL(time.Second), Metadata("metadata of erika"), Fenced()).Lock(t.Context())
		require.NoError(t, err)
		_, err = c.Mutex(name).TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		_, err = c.Mutex(name, WaitTimeout(2*time.Second), TTL(time.Second)).Lock(t.Context())
		require.ErrorIs(t, err, ErrWaitTimeout)
		f.do(t, "PERSIST", name)
		_, err = c.Mutex(name).TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		f.Del(name)
		<-lease.Context().Done()
		lease, err = c.Mutex(name).Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(mutexFamily.release, errLostReply) })
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		f.set(func() { f.before = nil })

		list := records()
		said := messages(list)
		for _, message := range []string{
			"DEBUG lock taken", "DEBUG lock not taken", "INFO lock was waited for longer than its TTL",
			"INFO lock had lost its TTL on the server", "WARN lock lost", "WARN release not confirmed", "INFO messages arrive",
		} {
			assert.Contains(t, said, message)
		}
		for _, r := range list {
			delete(r, "lock")
			text, err := json.Marshal(r)
			require.NoError(t, err)
			assert.NotContains(t, string(text), "erika")
		}
	})
}

func TestLogOfWarnings(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var out bytes.Buffer
		c, err := New(&informed{f, strings.Replace(soundInfo, "noeviction", "volatile-ttl", 1), nil},
			Logger(slog.New(slog.NewTextHandler(&out, nil))))
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, 1, strings.Count(out.String(), "level=WARN"))
		assert.Contains(t, out.String(), "volatile-ttl")
	})
}

// A lock that may have been another's is a reason to look; one that Close gives up is none.
func TestLogLevelOfTheEndOfALease(t *testing.T) {
	for level, ends := range map[slog.Level][]HoldEnd{
		slog.LevelDebug: {{}, {Detached: true}, {HandedOn: true}},
		slog.LevelInfo:  {{Lost: &LostError{Reason: ErrClosed}}},
		slog.LevelWarn:  {{Lost: &LostError{}}, {Lost: &LostError{Reason: ErrTaken}}, {Err: ErrTaken}, {Err: ErrAbsent}, {Err: ErrUnknown}},
	} {
		for _, e := range ends {
			for _, from := range []slog.Level{level, level + 1} {
				var out bytes.Buffer
				logger{slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: from}))}.holdEnd(t.Context(), e)
				if from > level {
					assert.Empty(t, out.String())
				} else {
					assert.Contains(t, out.String(), "level="+level.String(), e.Outcome())
				}
			}
		}
	}
}

func TestNilLoggerIsInvalid(t *testing.T) {
	_, err := New(instant{}, Logger(nil))
	assert.ErrorIs(t, err, ErrInvalid)
}

func TestLateRenewalIsLogged(t *testing.T) {
	logged(t, slog.LevelInfo, func(t *testing.T, f *fakeDeployment, c *Client, records func() []map[string]any) {
		_, err := c.Mutex("k", TTL(9*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(mutexFamily.renew, errLostReply) })
		time.Sleep(7 * time.Second)
		f.set(func() { f.before = nil })
		time.Sleep(time.Second)
		assert.Contains(t, messages(records()), "WARN renewal was late")
	})
}

// count is how many of the lines say that, and of how many renewals they tell.
func count(lines []map[string]any, text string) (n, renewals int) {
	for _, r := range lines {
		if r["msg"] == text {
			n++
			some, _ := r["renewals"].(float64)
			renewals += int(some)
		}
	}
	return n, renewals
}

// Leases in their hundreds whose renewals fail several times a second each are no reason to fill a disk.
func TestAnOutageDoesNotFloodTheLog(t *testing.T) {
	const leases, ttl = 200, 30 * time.Second
	s := &seen{}
	logged(t, slog.LevelInfo, func(t *testing.T, f *fakeDeployment, c *Client, records func() []map[string]any) {
		for range leases {
			must(t, c.Mutex(newID(), TTL(ttl)))
		}
		time.Sleep(ttl)
		require.Empty(t, records(), "all goes well")

		f.set(func() { f.before = refusesScript(mutexFamily.renew, errLostReply) })
		time.Sleep(ttl / 2)
		f.set(func() { f.before = nil })
		time.Sleep(ttl)
		list, failures := records(), 0
		for _, e := range s.renewals {
			if e.Err != nil {
				failures++
			}
		}
		require.Greater(t, failures, 10*leases)
		lines, told := count(list, "renewal failed")
		assert.LessOrEqual(t, lines, int(ttl/2/linesEvery))
		assert.Equal(t, failures, told)
		lines, told = count(list, "renewal was late")
		assert.LessOrEqual(t, lines, 2)
		assert.Greater(t, told, leases/2)
		assert.Equal(t, "INFO renewals succeed again", messages(list)[len(list)-1])
		lines, _ = count(list, "renewals succeed again")
		assert.Equal(t, 1, lines)

		f.set(func() { f.before = refusesScript(mutexFamily.renew, errLostReply) })
		time.Sleep(ttl)
		list = records()
		lines, _ = count(list, "renewal failed")
		assert.LessOrEqual(t, lines, int(ttl/linesEvery))
		lines, _ = count(list, "lock lost")
		assert.Equal(t, leases, lines, "each of them")
		f.set(func() { f.before = nil })
	}, s.observer())
}

// toldOfRenewals returns the handler of renewals of a client with that option.
func toldOfRenewals(o ClientOption) func(Renewal) {
	var cfg clientConfig
	o.applyClient(&cfg)
	return cfg.observers[0].Renewal
}

// Where a part of the locks cannot be renewed, as on one shard, those that can are no end of the trouble.
func TestLogOfAnOutageOfSomeLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tell := toldOfRenewals(Logger(slog.New(slog.NewTextHandler(&out, nil))))
		well := Renewal{LockInfo: LockInfo{Name: "well", TTL: 30 * time.Second}, Left: 29 * time.Second}
		ill := Renewal{LockInfo: LockInfo{Name: "ill", TTL: 30 * time.Second}, Left: 20 * time.Second, Err: errLostReply}
		for range 10 { // as often as an AttemptTimeout and a pause take
			tell(ill)
			tell(well)
			time.Sleep(3 * time.Second)
			ill.Left -= 2 * time.Second
			tell(well)
		}
		assert.Equal(t, 10, strings.Count(out.String(), "renewal failed"))
		assert.NotContains(t, out.String(), "succeed again")
		time.Sleep(calmTime)
		tell(well)
		tell(well)
		assert.Equal(t, 1, strings.Count(out.String(), "succeed again"))
	})
}

// The line is about the lock that will be lost first.
func TestLogNamesTheLockThatHasTheLeastLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tell := toldOfRenewals(Logger(slog.New(slog.NewTextHandler(&out, nil))))
		fails := func(name string, left time.Duration) {
			tell(Renewal{LockInfo: LockInfo{Name: name, TTL: 30 * time.Second}, Left: left, Err: errLostReply})
		}
		fails("first", 10*time.Second)
		assert.Contains(t, out.String(), "lock=first")
		assert.Contains(t, out.String(), "renewals=1")
		out.Reset()
		fails("a", 9*time.Second)
		fails("b", 7*time.Second)
		assert.Empty(t, out.String())
		time.Sleep(linesEvery)
		fails("c", 8*time.Second)
		assert.Contains(t, out.String(), "lock=b")
		assert.Contains(t, out.String(), "renewals=3")
	})
}

// What comes within a second of a line waits for the next renewal, which may be that of the next
// night's job. It must not look as if it were that one's.
func TestLogTellsWhatIsOverFromWhatHappensNow(t *testing.T) {
	for _, failure := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			tell := toldOfRenewals(Logger(slog.New(slog.NewTextHandler(&out, nil))))
			about := func(name string, left time.Duration) {
				e := Renewal{LockInfo: LockInfo{Name: name, TTL: 30 * time.Second}, Left: left}
				if failure {
					e.Err = errLostReply
				}
				tell(e)
			}
			lines := func() []string {
				defer out.Reset()
				return strings.Split(strings.TrimSpace(out.String()), "\n")
			}
			about("lost", time.Second)
			assert.Len(t, lines(), 1)
			about("lost", time.Millisecond)
			time.Sleep(24 * time.Hour)
			about("new", 9*time.Second)
			list := lines()
			require.Len(t, list, 2)
			assert.Contains(t, list[0], "lock=lost")
			assert.Contains(t, list[0], "ago=24h")
			assert.Contains(t, list[1], "lock=new")
			assert.Contains(t, list[1], "renewals=1")
			assert.NotContains(t, list[1], "ago=")

			about("new", 8*time.Second)
			time.Sleep(time.Hour)
			tell(Renewal{LockInfo: LockInfo{Name: "well", TTL: 30 * time.Second}, Left: 29 * time.Second})
			list = lines()
			assert.Contains(t, list[0], "lock=new")
			assert.Contains(t, list[0], "ago=1h")
		})
	}
}

// Two clients may be given one option: what one has logged is not left out by the other.
func TestEachClientLogsItsOwnRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		option := Logger(slog.New(slog.NewTextHandler(&out, nil)))
		for range 2 {
			toldOfRenewals(option)(Renewal{Err: errLostReply})
		}
		assert.Equal(t, 2, strings.Count(out.String(), "renewal failed"))
	})
}
