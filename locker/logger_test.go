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
func logged(t *testing.T, level slog.Level, test func(t *testing.T, f *fakeDeployment, c *Client, records func() []map[string]any)) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var out bytes.Buffer
		c := f.client(t, Logger(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))))
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
		const name = "customer:4711"
		lease, err := c.Mutex(name, TTL(time.Second), Metadata("metadata4711"), Fenced()).Lock(t.Context())
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
			assert.NotContains(t, string(text), "4711")
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
