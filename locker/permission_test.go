package locker

import (
	"errors"
	"slices"
	"strings"
	"testing"
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

// come asks for m with a place in the queue, without the permission for a command.
func (c commandLine) come(m *Mutex, command string) error {
	c.do("ACL", "SETUSER", "default", "-"+command)
	defer c.do("ACL", "SETUSER", "default", "+@all")
	r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: "other", tail: "|", ttl: time.Minute, px: "60000"}
	_, _, err := m.client.store.acquire(c.Context(), r, place{reservation: newID(), life: 3 * time.Second})
	return err
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
				if err := line.come(m, command); !errors.Is(err, ErrLocked) {
					missed++
					assert.ErrorIs(t, forbidden(err), ErrPermission)
				}
				for _, key := range line.do("KEYS", "*").([]any) {
					assert.NotEqual(t, int64(-1), line.do("PTTL", key.(string)), "%s without %s, the queue is there: %v: %s", what, command, there, key)
				}
				line.do("FLUSHALL")
			}
		}
	}
	assert.Greater(t, missed, 20)
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
