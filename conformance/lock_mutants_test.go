package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/locker/driver"
)

// A lockMutant breaks locks, by a bug of the reference driver or on the way to
// it, and fails at least these cases.
type lockMutant struct {
	name   string
	bug    bug
	edit   luaEdit
	breaks func() breaker
	fails  []string // without "Lock/" where that is the level
}

func luaMutant(name, script, before, after string, fails ...string) lockMutant {
	e := luaEdit{script: script, before: before, after: after}
	return lockMutant{name: name, edit: e, breaks: e.breaker, fails: fails}
}

// shortMutant breaks what is nearly always the case.
func shortMutant(name, script, before, after string, fails ...string) lockMutant {
	e := luaEdit{script: script, before: before, after: after, short: true}
	return lockMutant{name: name, edit: e, breaks: e.breaker, fails: fails}
}

// lockMutants are in the order of the code that they break: the scripts, the
// commands and replies, the messages, the driver.
var lockMutants = slices.Concat(mutexMutants, queueMutants, reentrantMutants, readWriteMutants)

var mutexMutants = []lockMutant{
	luaMutant("acquire does not know its own id", "acquire", "if value and held_by(value, id) then", "if false then",
		"Mutex/LostReply/Acquire", "Queue/LostGrantMessage"),
	luaMutant("acquire forgets what was given up", "acquire", "redis.call('EXISTS', KEYS[5]) == 1", "false",
		"Mutex/LateRequest/Fenced"),
	luaMutant("acquire does not arm its own lease again", "acquire", "arm(KEYS[1], ttl)", "",
		"Mutex/LateGrant"),
	luaMutant("acquire heals nothing", "acquire", "redis.call('PEXPIRE', KEYS[1], left)", "",
		"Mutex/Healed"),
	luaMutant("acquire tells a wrong remaining time", "acquire", "{0, left, string.sub(", "{0, 1000 * left, string.sub(",
		"WakeUp/Expiry", "Mutex/TryLocked"),
	luaMutant("acquire tells no holder", "acquire", "string.sub(value, 1, 8192), seq", "'', seq",
		"Mutex/TryLocked", "Mutex/WaitErrorBoth"),
	luaMutant("acquire deletes what it does not know", "acquire", "return write_nothing(KEYS[4]) or {-3}", "redis.call('DEL', KEYS[1]) return {-3}",
		"Mutex/ForeignValue"),
	luaMutant("queue has no TTL", "acquire", "outlast(queue, life)", "nil",
		"TTL/EveryKey"),
	luaMutant("record gets its TTL by a second command", "acquire", ", 'PX', lease)", ")",
		"TTL/EveryKey"),
	luaMutant("token does not grow", "acquire", "math.max(last + 1, now)", "7",
		"Fencing/Grows", "Fencing/Refuses"),
	luaMutant("ids are compared by prefix", "", "string.sub(value, 1, 7 + #id) == 'gl1|m|' .. id .. '|'", "string.sub(value, 1, 6 + #id) == 'gl1|m|' .. id",
		"Mutex/PrefixOfId"),
	luaMutant("release ignores the owner", "release", "not held_by(value, ARGV[1])", "false",
		"Mutex/ThreeAnswers", "Mutex/DuplicatedRequest", "Mutex/PrefixOfId"),
	luaMutant("release wakes nobody", "release", "hand_over(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2] == '1')", "redis.call('DEL', KEYS[1])",
		"Queue/Order"),
	luaMutant("giving up wakes nobody", "giveup", "hand_over(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2] == '1')", "redis.call('DEL', KEYS[1])",
		"Queue/GrantThenCancel"),
	luaMutant("giving up stays in the queue", "giveup", "forget(KEYS[3], KEYS[4], ARGV[4])", "",
		"Mutex/CancelledWaiterLeavesNothing"),
	luaMutant("renewal resurrects", "renew", "if not value then\n    return gone(record, 0)", "if not value then\n    redis.call('SET', record, 'gl1|m|' .. id .. '|0|1|again|', 'PX', ttl)\n    return 1",
		"Loss/Deleted"),
	luaMutant("renewal takes over", "renew", "return value == 0 and -1 or gone(record, -1)", "redis.call('PEXPIRE', record, ttl)\n    return 1",
		"Loss/TakenOver"),
	luaMutant("renewal shortens", "renew", "if left < ttl then", "if true then",
		"Loss/ExtendOnlyLengthens"),
	luaMutant("renewal draws a token", "renew", "arm(record, ttl)", "arm(record, ttl)\nredis.call('SET', record, (string.gsub(value, token, digits(token + 1), 1)), 'KEEPTTL')",
		"Fencing/KeptOnRenewal"),
	luaMutant("taking up keeps the id", "attach", "write(KEYS[1], ARGV[2],", "write(KEYS[1], ARGV[1],",
		"Handover/OneWins", "Handover/DetachAttach"),
	luaMutant("force-release does nothing", "break", "redis.call('DEL', KEYS[1])", "",
		"Admin/ForceRelease", "ReadWrite/ForceRelease"),
	luaMutant("force-release ends all leases", "break", "return ARGV[1] == '*' or wanted", "return true or wanted",
		"Admin/ForceReleaseFrom", "ReadWrite/ForceReleaseFrom"),
	luaMutant("force-release deletes anything", "break", "if not id then\n", "if false then\n",
		"Mutex/ForeignValue"),
	luaMutant("inspect counts no waiters", "inspect", "redis.pcall('ZCARD', KEYS[2])", "0",
		"Admin/Inspect"),

	{name: "SET without NX", breaks: commands(setWithout("NX")),
		fails: []string{"Mutex/Exclusion", "Mutex/Exclusion/Faults", "Mutex/Interop"}},
	{name: "SET without PX", breaks: commands(setWithout("PX")),
		fails: []string{"TTL/EveryKey", "Watchdog/Off", "Mutex/Interop"}},
	{name: "SET after a look", breaks: commands(looksBefore("SET")),
		fails: []string{"Mutex/TwoCommands"}},
	{name: "keys get a prefix", breaks: commands(prefixesKeys),
		fails: []string{"Mutex/Interop", "Mutex/BinaryName"}},
	{name: "release is not sent", breaks: commands(swallows("release")),
		fails: []string{"Mutex/UnlockIdempotent", "Mutex/LostReply/Unlock", "Mutex/TwoCommands", "Do/Released", "Do/CancelledCaller",
			"Close/ReleasesHeld", "Mutex/ThreeAnswers", "WakeUp/PollOnly"}},
	{name: "release without a reply is taken for done", breaks: commands(optimistic("release")),
		fails: []string{"Close/Unconfirmed", "Mutex/UnlockUnknown"}},
	{name: "giving up is not sent", breaks: commands(swallows("giveup")),
		fails: []string{"Mutex/GivenUpAttemptReleased", "Mutex/CancelledWaiterLeavesNothing", "Queue/GrantThenCancel", "Close/NoLeak"}},
	{name: "giving a taking up up is not sent", breaks: commands(swallows("unattach")),
		fails: []string{"Handover/GivenUp"}},
	{name: "renewal is not sent", breaks: commands(swallows("renew")),
		fails: []string{"Watchdog/Renews", "Watchdog/TransientErrors", "Watchdog/Batch", "Loss/Partition", "Loss/Deleted", "Loss/TakenOver",
			"Do/Lost", "Mutex/NoScript", "Admin/ForceRelease"}},
	{name: "renewal without a reply is taken for done", breaks: commands(optimistic("renew")),
		fails: []string{"Loss/Partition", "Watchdog/ExtendUnknown"}},
	{name: "renewal asks for too much", breaks: commands(renewsTenfold),
		fails: []string{"Watchdog/MaxHold"}},
	{name: "failed renewal is a loss", breaks: commands(failedRenewalIsLoss),
		fails: []string{"Watchdog/TransientErrors"}},
	{name: "renewal comes again later", breaks: commands(renewsAgainLater),
		fails: []string{"Watchdog/StopsAfterUnlock"}},
	{name: "late reply answers the next renewal", breaks: lateYes,
		fails: []string{"Loss/LateReply"}},
	{name: "replies are cached", breaks: caches,
		fails: []string{"WakeUp/LostMessage", "WakeUp/PollOnly", "Admin/Inspect", "Watchdog/Renews"}},
	{name: "a connection for each command", breaks: func() breaker { return breaker{conn: connectsEachTime} },
		fails: []string{"Watchdog/Batch"}},
	{name: "a subscription for each waiter's lifetime of a second", breaks: func() breaker { return breaker{conn: resubscribes} },
		fails: []string{"WakeUp/OneConnection"}},
	{name: "outages are told as a nil reply", breaks: commands(outageIsNil),
		fails: []string{"Mutex/UnreachableNotLocked"}},

	{name: "messages get lost", breaks: func() breaker {
		return breaker{sub: func(s driver.Subscription) driver.Subscription { return deaf{s} }}
	},
		fails: []string{"Queue/Order"}},
	{name: "gaps without end", breaks: func() breaker {
		return breaker{sub: func(s driver.Subscription) driver.Subscription { return gapStorm{s} }}
	},
		fails: []string{"WakeUp/OneConnection"}},

	{bug: "sub-no-gap", fails: []string{"WakeUp/Gap"}},
	{bug: "sub-never-pings", fails: []string{"WakeUp/BlackHole"}},
	{bug: "sub-never-reconnects", fails: []string{"WakeUp/Gap"}},
	{bug: "abandoned-is-not-sent", fails: []string{"Mutex/GivenUpAttemptReleased"}},
	{bug: "unknown-is-not-sent", fails: []string{"Mutex/LostReply/Acquire", "Mutex/LostReply/Unlock"}},
	{bug: "dial-error-is-reply", fails: []string{"Mutex/UnreachableNotLocked"}},
	{bug: "error-is-plain", fails: []string{"Mutex/NoScript", "Mutex/Refusal"}},
	{bug: "unknown-code-is-ERR", fails: []string{"Mutex/Refusal", "Mutex/UnreachableNotLocked"}},
	{bug: "ignores-cancel", fails: []string{"Mutex/CtxPrompt"}},
	{bug: "ignores-deadline", fails: []string{"Mutex/CtxPrompt", "Watchdog/ExtendUnknown"}},
	{bug: "drops-nul", fails: []string{"Mutex/BinaryName", "Mutex/TryLocked"}},
	{bug: "key-ends-at-newline", fails: []string{"Mutex/BinaryName"}},
	{bug: "nested-strings-are-trimmed", fails: []string{"Mutex/TryLocked"}},
	{bug: "integers-are-strings", fails: []string{"Mutex/ThreeAnswers"}},
	{bug: "close-leaves-connections", fails: []string{"Close/NoLeak"}},
	{bug: "close-leaks-goroutine", fails: []string{"Close/NoLeak"}},
}

// lockServerMutants are for the cases that need a real server.
var lockServerMutants = []lockMutant{
	{bug: "unknown-code-is-ERR", fails: []string{"Server/NoPerm/Lock"}},
	{bug: "sub-ignores-refusal", fails: []string{"Server/NoPerm/Subscribe"}},
	{bug: "ignores-deadline", fails: []string{"Server/ClientPause"}},
}

// lockLevels are the levels at which the suite tests locks.
var lockLevels = []string{"Lock", "Reentrant", "ReadWrite"}

var lockLevel = conformance.Only(lockLevels...)

func TestLocks(t *testing.T) { conformance.Test(t, harness(""), lockLevel) }

// A driver without any optional interface is slower and nothing else.
func TestLocksThroughPlainDriver(t *testing.T) {
	withoutRaceDetector(t)
	conformance.Test(t, conformance.Harness{Open: func(cfg driver.Config) (driver.Connector, error) {
		c, err := refDriver{}.OpenConnector(cfg)
		return plainConnector{c}, err
	}}, lockLevel)
}

// What a pool does beside is none of the two commands: it dials, or looks whether a connection lives.
func TestPoolThatDialsMeanwhile(t *testing.T) {
	m := lockMutant{breaks: func() breaker {
		return breaker{conn: func(c driver.Connector, conn driver.Conn) driver.Conn { return meanwhile{conn.(refLike), c} }}
	}}
	cases := []string{"Lock/Mutex/TwoCommands", "ReadWrite/TwoCommands"}
	report := conformance.Run(t, lockHarness(m), conformance.Only(cases...))
	require.NoError(t, report.Err())
	assert.Equal(t, cases, report.Names(conformance.Passed))
}

type plainConnector struct{ driver.Connector }

func (c plainConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return driver.Wrapper{Conn: conn}, nil
}

func TestLocksOnRealServer(t *testing.T) {
	addr := startRedis(t)
	conformance.Test(t, harness(""), conformance.Server(addr), conformance.Auth("", realPassword), lockLevel)
}

// TestLockMutants shows that each case about locks finds something. A
// mutant may fail further cases than those listed.
func TestLockMutants(t *testing.T) {
	withoutRaceDetector(t)
	for _, m := range lockMutants {
		m.test(t)
	}
	killed := listed(lockMutants)
	killed = append(killed, listed(lockServerMutants)...)
	for _, c := range conformance.Cases() {
		if level, _, _ := strings.Cut(c, "/"); slices.Contains(lockLevels, level) {
			assert.Contains(t, killed, c, "no mutant is listed for this case")
		}
	}
}

func TestLockMutantsOnRealServer(t *testing.T) {
	withoutRaceDetector(t)
	addr := startRedis(t)
	for _, m := range lockServerMutants {
		m.test(t, conformance.Server(addr), conformance.Auth("", realPassword))
	}
}

func (m lockMutant) test(t *testing.T, opts ...conformance.Option) {
	if m.name == "" {
		m.name = string(m.bug)
	}
	t.Run(m.name, func(t *testing.T) {
		cases := listed([]lockMutant{m})
		assert.NotEmpty(t, cases)
		if m.edit != (luaEdit{}) {
			require.True(t, m.edit.changes(), "the script does not contain %q", m.edit.before)
		}
		report := conformance.Run(t, lockHarness(m), append(opts, conformance.Only(cases...))...)
		failed := report.Names(conformance.Failed)
		for _, c := range cases {
			assert.Contains(t, failed, c, "the suite does not notice it")
		}
	})
}

func listed(mutants []lockMutant) []string {
	var names []string
	for _, m := range mutants {
		for _, c := range m.fails {
			if !strings.HasPrefix(c, "Reentrant/") && !strings.HasPrefix(c, "ReadWrite/") {
				c = "Lock/" + c
			}
			names = append(names, c)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
