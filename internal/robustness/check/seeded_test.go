package check_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/internal/robustness/check"
	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/servertest"
)

// overlap is what is found by comparing the times of holds.
var overlap = []history.Law{history.Exclusion, history.LossFirst, history.ReadWrite}

// only is one law.
func only(law history.Law) []history.Law { return []history.Law{law} }

// bugs are seeded into the toy. Each has been in some lock library, or nearly in this one,
// and is to be found by the checker of its law.
var bugs = map[string]struct {
	law []history.Law // any of them
	flaw
}{
	"unlock does not look whose the lock is": {overlap, flaw{
		in:  "release",
		old: "if not hold or tonumber(hold:sub(3)) <= now then\n  return 0\nend\nredis.call('HDEL', record, id)",
		new: "redis.call('DEL', record)",
	}},
	"unlock looks only how the id begins": {overlap, flaw{
		in:  "release",
		old: "local hold =",
		new: `for _, field in ipairs(redis.call('HKEYS', record)) do
			local begins = id:match('^[^-]*')
			if field:sub(1, #begins) == begins then
				redis.call('HDEL', record, field)
				return 1
			end
		end
		local hold =`,
	}},
	"the lock is looked at and taken by two commands": {overlap, flaw{
		in: "acquire", old: "blocked = blocked or how == 'w' or mode == 'w'", new: "", looksThenTakes: true,
	}},
	"the deadline counts from the reply": {only(history.LossFirst), flaw{countsFromReply: true}},
	"the deadline is not heeded":         {only(history.LossFirst), flaw{ignoresDeadline: true}},
	"a renewal takes the lock again": {only(history.LossFirst), flaw{
		in:  "renew",
		old: "if not hold or tonumber(hold:sub(3)) <= now then\n  return 0\nend",
		new: "if not hold then\n  redis.call('DEL', record)\n  hold = 'w:'\nend",
	}},
	"the TTL comes by a command of its own": {only(history.Mortality), flaw{
		in: "acquire", old: "redis.call('PEXPIRE', record, math.max(ttl, redis.call('PTTL', record)))", new: "", armsLater: true,
	}},
	"a lease never ends on the server": {only(history.Liveness), flaw{
		in: "acquire", old: "if tonumber(lapses) <= now then\n    redis.call('HDEL', record, fields[i])\n  elseif", new: "redis.call('PERSIST', record)\n  if",
	}},
	"a reader beside another is not counted": {only(history.ReadWrite), flaw{
		in: "acquire", old: "redis.call('HSET', record, id, ", new: "local _ = held or redis.call('HSET', record, id, ",
	}},
	"tokens begin anew after a TTL": {only(history.Fencing), flaw{
		in: "acquire", old: "redis.call('PEXPIRE', fence, 60000)", new: "redis.call('PEXPIRE', fence, ttl)",
	}},
	"a late release writes its token back": {only(history.Fencing), flaw{
		in: "release", old: "local hold =", new: "redis.call('SET', fence, token, 'PX', 60000)\nlocal hold =",
	}},
	"a waiter misses what comes while it asks": {only(history.Wakeup), flaw{sleepsDeaf: true}},
	"who came last is served first": {only(history.Order), flaw{
		in: "acquire", old: "arrival < mine", new: "arrival > mine",
	}},
	"what was lost is unlocked with success": {only(check.Honest), flaw{releaseSucceeds: true}},
	"a repeated request finds the lock taken": {only(check.Honest), flaw{
		in: "acquire", old: "return {1, redis.call('GET', fence) or '0'}\n  else", new: "return {0, '0'}\n  else",
	}},
}

// searchTime is for how long a toy is played with, again and again, until its bug is
// found. Mostly once is enough, unless the machine has no time for the test.
const searchTime = time.Minute

func TestSeededBugsAreFound(t *testing.T) {
	if raceDetector {
		t.Skip("seeded bugs are looked for without the race detector: make mutants")
	}
	t.Parallel()
	server := servertest.Single(t)
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := dial(t, server)
			begun := time.Now()
			for n := 0; time.Since(begun) < searchTime; n++ {
				report := play(t, client, bug.flaw, fmt.Sprintf("%s-%d", name, n), uint64(time.Now().UnixNano()))
				found := laws(report.Violations)
				slices.Sort(found)
				t.Logf("%d operations: %v", report.Operations, slices.Compact(found))
				if slices.ContainsFunc(found, func(law history.Law) bool { return slices.Contains(bug.law, law) }) {
					return
				}
			}
			t.Errorf("the checkers of %v have not found it", bug.law)
		})
	}
}

// The checkers find nothing wrong with a lock that is right, whatever the network does.
func TestASoundLockIsNotAccused(t *testing.T) {
	t.Parallel()
	report := play(t, dial(t, servertest.Single(t)), flaw{}, "sound", uint64(time.Now().UnixNano()))
	assert.Empty(t, report.Violations)
	t.Logf("%d operations, %d grants, %d refusals, %d failures, %d unjudged", report.Operations, report.Grants, report.Refusals, report.Failures, report.Unjudged)
}

func dial(t *testing.T, s *servertest.Server) *redis.Client {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
