package locker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A commandLine sends commands to a real server.
type commandLine struct {
	*testing.T
	conn driver.Conn
}

func (c commandLine) do(args ...string) driver.Value {
	v, err := c.conn.Do(c.Context(), driver.Command{Args: args})
	require.NoError(c, err, args)
	return v
}

// without runs f while nobody has the permission for a command.
func (c commandLine) without(command string, f func()) {
	c.do("ACL", "SETUSER", "default", "-"+command)
	defer c.do("ACL", "SETUSER", "default", "+@all")
	f()
}

// lapses asserts that no key stays without a TTL.
func (c commandLine) lapses(msg ...any) {
	c.Helper()
	for _, key := range c.do("KEYS", "*").([]any) {
		assert.NotEqual(c, int64(-1), c.do("PTTL", key.(string)), append(msg, key)...)
	}
}

// come asks for m with a place in the queue, and returns its seq.
func come(t *testing.T, m *Mutex, reservation string) (seq string, err error) {
	r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: "other", tail: "|", ttl: time.Minute, px: "60000"}
	_, seq, err = m.client.store.acquire(t.Context(), r, place{reservation: reservation, channel: "nobody", life: 3 * time.Second})
	return seq, err
}

// Whatever one permission is missing as somebody comes to a queue, which may be there
// already, and without entries where memory was short: no key stays without a TTL, not even
// where nobody cleans up.
func TestAMissingPermissionLeavesNoQueueWithoutATTL(t *testing.T) {
	f := &fakeDeployment{dial: startRedis(t)}
	conn, err := f.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	line, holder, other := commandLine{t, conn}, f.client(t), f.client(t)
	missed := 0
	for what, opts := range map[string][2][]Option{
		"a mutex":   {},
		"reentrant": {{Reentrant()}, {Reentrant()}},
		"a reader":  {{ForWriting()}, {ForReading()}},
		"a writer":  {{ForReading()}, {ForWriting()}},
	} {
		for _, command := range neededCommands() {
			for _, there := range []bool{false, true} {
				_, err := holder.Mutex("k", opts[0]...).Lock(t.Context())
				require.NoError(t, err)
				m := other.Mutex("k", opts[1]...)
				if there {
					line.do("ZADD", m.keys.queue, "1", newID())
					line.do("PEXPIRE", m.keys.queue, "60000")
				}
				line.without(command, func() { _, err = come(t, m, newID()) })
				if !errors.Is(err, ErrLocked) {
					missed++
					assert.ErrorIs(t, forbidden(err), ErrPermission)
				}
				line.lapses("%s without %s, the queue is there: %v: %s", what, command, there)
				line.do("FLUSHALL")
			}
		}
	}
	assert.Greater(t, missed, 20)
}

// The next in turn is not given a record that does not end.
func TestAMissingPermissionLeavesNoGrantWithoutATTL(t *testing.T) {
	f := &fakeDeployment{dial: startRedis(t)}
	conn, err := f.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	line, holder, other := commandLine{t, conn}, f.client(t), f.client(t)
	must(t, holder.Mutex("first"))
	holder.store.link.counts.Store(false) // else who does not listen is passed over
	for what, opts := range map[string][]Option{"a mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "a writer": {ForWriting()}} {
		for _, command := range neededCommands() {
			lease, err := holder.Mutex("k", opts...).Lock(t.Context())
			require.NoError(t, err)
			_, err = come(t, other.Mutex("k", opts...), newID())
			require.ErrorIs(t, err, ErrLocked)
			line.without(command, func() { _ = lease.Unlock(t.Context()) })
			line.lapses("%s without %s: %s", what, command)
			line.do("FLUSHALL")
		}
	}
}

// Who is told that a permission is missing has not got the lock, which is free when those
// have left who have it.
func TestAMissingPermissionLeavesNoHold(t *testing.T) {
	f := &fakeDeployment{dial: startRedis(t)}
	conn, err := f.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	line, holder, other := commandLine{t, conn}, f.client(t), f.client(t)
	refused := map[string]int{}
	without := func(what, command string, take func() (*Lease, error)) {
		var lease *Lease
		line.without(command, func() { lease, err = take() })
		if err == nil {
			require.NoError(t, lease.Unlock(t.Context()))
			return
		}
		refused[what]++
		assert.ErrorIs(t, err, ErrPermission, "%s without %s", what, command)
	}
	isFree := func(what, command string) {
		assert.Eventually(t, func() bool { return line.do("EXISTS", "k") == int64(0) }, 10*time.Second, time.Millisecond, "%s without %s", what, command)
		line.do("FLUSHALL")
	}
	for _, command := range neededCommands() {
		first := must(t, holder.Mutex("k", ForReading()))
		without("a reader", command, func() (*Lease, error) { return other.Mutex("k", ForReading()).TryLock(t.Context()) })
		require.NoError(t, first.Unlock(t.Context()))
		isFree("a reader", command)

		for what, opt := range map[string]Option{"a detached mutex": NoRenewal(), "a detached reader": ForReading(), "a detached writer": ForWriting(), "detached, reentrant": Reentrant()} {
			id, err := must(t, holder.Mutex("k", opt)).Detach(t.Context(), 30*time.Second)
			require.NoError(t, err)
			attach := func() (*Lease, error) { return other.Mutex("k", opt).Attach(t.Context(), id) }
			before := refused[what]
			without(what, command, attach)
			if refused[what] > before {
				lease, err := attach()
				require.NoError(t, err, "%s without %s", what, command)
				require.NoError(t, lease.Unlock(t.Context()))
			}
			isFree(what, command)
		}
	}
	assert.Len(t, refused, 5)
}

// A script that stops midway may have taken the lock. Nobody has it then, and so it is
// given up.
func TestARefusalMidwayIsCleanedUp(t *testing.T) {
	const refusal = "ERR The user executing the script can't run this command or subcommand"
	refuse := func(f *fakeDeployment, reply string) {
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if holdFamily.acquire.runs(cmd) || holdFamily.attach.runs(cmd) {
					return driver.NewServerError(reply)
				}
				return nil
			}
		})
	}
	t.Run("single", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			m := f.client(t).Mutex("k", Reentrant())
			refuse(f, refusal)
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, ErrPermission)
			synctest.Wait()
			assert.False(t, f.Exists("k"))
			_, err = m.Lock(t.Context())
			require.ErrorIs(t, err, ErrPermission)
			synctest.Wait()
			assert.False(t, f.Exists("k"))
		})
	})
	t.Run("detached", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			m := f.client(t).Mutex("k", Reentrant())
			id, err := must(t, m).Detach(t.Context(), 10*time.Second)
			require.NoError(t, err)
			refuse(f, refusal)
			_, err = m.Attach(t.Context(), id)
			require.ErrorIs(t, err, ErrPermission)
			synctest.Wait()
			f.heal()
			_, err = f.client(t).Mutex("k", Reentrant()).Attach(t.Context(), id)
			require.NoError(t, err, "by whom else it was meant for")
		})
	})
	t.Run("quorum", func(t *testing.T) {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			for _, f := range nodes {
				refuse(f, refusal)
			}
			_, err := nodes.client(t, QuorumConfig{}).Mutex("k", Reentrant()).TryLock(t.Context())
			require.ErrorIs(t, err, ErrPermission)
			synctest.Wait()
			for _, f := range nodes {
				assert.False(t, f.Exists("k"))
			}
			var taken taken
			taken.note(ballot{{in: true, Result: driver.Result{Err: driver.NewServerError(refusal)}}})
			assert.NotZero(t, taken.may, "also where all nodes have answered so")
		})
	})
	t.Run("nothing was done", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			m := f.client(t).Mutex("k", Reentrant())
			f.refuse("NOPERM this user has no permissions to run the 'evalsha' command or its subcommand")
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, ErrPermission)
			f.heal()
			f.reset()
			time.Sleep(time.Minute)
			assert.Empty(t, f.commands(), "a request that nobody has any use for")
		})
	})
}

// What is missing for the waiters of a lock that has been broken does not make it one that was let be.
func TestAMissingPermissionLeavesNoLockThatIsSaidToHaveBeenLetBe(t *testing.T) {
	f := &fakeDeployment{dial: startRedis(t)}
	conn, err := f.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	line, holder, other := commandLine{t, conn}, f.client(t), f.client(t)
	refused := 0
	for what, opts := range map[string][]Option{"a mutex": nil, "reentrant": {Reentrant()}, "a writer": {ForWriting()}} {
		for _, command := range neededCommands() {
			m, dead := must(t, holder.Mutex("k", opts...)).mutex, newID()
			_, err := come(t, other.Mutex("k", opts...), dead)
			require.ErrorIs(t, err, ErrLocked)
			line.do("HDEL", m.keys.entries, dead)
			line.without(command, func() { _, err = other.ForceRelease(t.Context(), "k") })
			there := line.do("EXISTS", "k") == int64(1)
			if err != nil {
				refused++
				assert.ErrorIs(t, err, ErrPermission, "%s without %s", what, command)
			}
			assert.Equal(t, there, err != nil, "%s without %s: %v", what, command, err)
			line.do("FLUSHALL")
		}
	}
	assert.Greater(t, refused, 10)
}

// Where a queue was deleted, and its entries were not, who comes anew has a place as others.
func TestAnEntryThatHasOutlivedItsQueueIsNoObstacle(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		must(t, f.client(t).Mutex("k"))
		m, reservation := f.client(t).Mutex("k"), newID()
		for range 3 {
			seq, err := come(t, m, reservation)
			require.ErrorIs(t, err, ErrLocked)
			assert.NotEmpty(t, seq)
			assert.GreaterOrEqual(t, f.TTL(m.keys.entries), 3*time.Second)
			f.Del(m.keys.queue)
			f.SetTTL(m.keys.entries, time.Second)
		}
	})
}

// neededCommands are those that a script may have to run, as far as every server can forbid
// them.
func neededCommands() (commands []string) {
	for rule := range strings.FieldsSeq(neededRules) {
		if command, ok := strings.CutPrefix(rule, "+"); ok && !strings.Contains(command, "|") && !slices.Contains([]string{"eval", "evalsha", "hello", "auth"}, command) {
			commands = append(commands, command)
		}
	}
	return commands
}

// A script's refusal does not tell which permission is missing, nor what version the server
// is of. Redis 6.0 refuses a rule for channels, and all that stand beside it.
func TestPermissionErrorTellsThatRedis60HasNoRulesForChannels(t *testing.T) {
	for reply, told := range map[string]bool{
		"@user_script: 7: The user executing the script can't run this command or subcommand": true,
		"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand":  false,
		"NOPERM this user has no permissions to access one of the keys used as arguments":     false,
		"NOPERM this user has no permissions to access one of the channels used as arguments": true,
	} {
		err := forbidden(driver.NewServerError(reply))
		require.ErrorIs(t, err, ErrPermission)
		assert.Equal(t, told, strings.Contains(err.Error(), "before Redis 6.2 without the rule that begins with &"), err)
	}
}

// A release that must not look who waits does not pass for one after which nobody does.
func TestUnlockThatMayNotLookWhoWaitsSaysSo(t *testing.T) {
	f := &fakeDeployment{dial: startRedis(t)}
	conn, err := f.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	line := commandLine{t, conn}
	for kind, opts := range exclusive {
		lease := must(t, f.client(t).Mutex(kind, opts...))
		_, err = come(t, f.client(t).Mutex(kind, opts...), newID())
		require.ErrorIs(t, err, ErrLocked)
		line.without("zrange", func() { err = lease.Unlock(within(t, time.Second)) })
		assert.ErrorIs(t, err, ErrPermission, kind)
	}
}
