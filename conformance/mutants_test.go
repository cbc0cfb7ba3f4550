package conformance_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance"
)

// A mutant is the reference driver with one bug, and the cases that must find
// it, separated by space. A bug may fail further cases.
type mutant struct {
	bug   bug
	fails string
}

var mutants = []mutant{
	// Opening and connecting.
	{"hides-batcher", `Capabilities/Declared`},
	{"hides-listener", `Capabilities/Declared`},
	{"open-dials", `Connector/NoIO`},
	{"no-driver", `Connector/Driver`},
	{"connect-remembers-error", `Connector/ConnectAgain`},
	{"connects-are-shared", `Connector/Concurrent`},
	{"connect-given-up-stays", `Connector/GivenUp`},
	{"conns-are-shared", `Close/OtherConn`},
	{"no-auth", `Config/Auth`},
	{"drops-username", `Config/Username`},
	{"introduces-itself-once", `Config/Username Config/DB Config/ClientName`},
	{"drops-TLS", `Config/TLS`},
	{"tls-handshake-ignores-ctx", `Config/TLS/Hung`},
	{"tls-handshake-has-no-timeout", `Config/TLS/Hung`},
	{"tls-config-is-changed", `Config/TLS`},
	{"tls-has-no-name-of-the-host", `Config/TLS`},
	{"tls-is-not-verified", `Config/TLS/Verify`},
	{"tls-roots-are-dropped", `Config/TLS/Verify`},
	{"unix-is-tcp", `Config/Unix`},
	{"address-loses-brackets", `Config/IPv6`},
	{"no-select", `Config/DB`},
	{"select-refused-is-ignored", `Config/DB/Refused`},
	{"no-client-name", `Config/ClientName`},
	{"no-network-fails", `Config/Network`},
	{"timeout-halved", `Config/Timeout`},
	{"timeout-ignored", `Config/Timeout/Short`},
	{"zero-is-no-timeout", `Config/Timeout/Default`},
	{"zero-is-no-dial-timeout", `Config/Timeout/Default`},
	{"dial-timeout-ignored", `Config/DialTimeout/Short Config/DialTimeout/Handshake`},
	{"handshake-has-the-timeout-of-replies", `Config/DialTimeout/Handshake`},

	// Passwords.
	{"auth-error-shows-password", `Silent/WrongPassword Silent/Faults Config/Username`},
	{"dial-error-shows-password", `Silent/Faults Config/Username Do/Refused/NotReplied Do/Bounded/Refused Do/Recover/Refused`},
	{"open-error-shows-password", `Silent/OpenConnector`},
	{"connector-shows-password", `Silent/Printed`},

	// Replies.
	{"nil-is-an-error", `Do/Reply/Nil Do/Reply/NilArray Batch/Results`},
	{"nil-is-empty", `Do/Reply/Nil Do/Reply/NilArray Do/Reply/NilInArray Batch/Results`},
	{"script-nil-is-empty", `Do/Reply/Nil`},
	{"empty-is-nil", `Do/Reply/EmptyBulk`},
	{"empty-array-is-nil", `Do/Reply/EmptyArray`},
	{"numbers-are-integers", `Do/Reply/Bulk`},
	{"integers-are-strings", `Do/Reply/Integer Do/Keys/Anywhere Batch/Order`},
	{"integers-are-int32", `Do/Reply/Integer`},
	{"status-is-bool", `Do/Reply/Status Batch/Results`},
	{"arrays-are-strings", `
		Do/Reply/Array Do/Reply/EmptyArray Do/Reply/NestedArray Do/Reply/NilInArray Do/Reply/NestedError
		Do/Args/Many Do/Keys/Anywhere`},
	{"arrays-are-flat", `Do/Reply/EmptyArray Do/Reply/NestedArray Do/Binary/Nested Batch/Results`},
	{"nested-error-fails", `Do/Reply/NestedError`},
	{"maps-are-maps", `Do/Reply/Map`},
	{"sets-are-maps", `Do/Reply/Set`},
	{"doubles-are-floats", `Do/Reply/Double`},
	{"arrays-are-used-again", `Do/Reply/Kept`},
	{"replies-are-UTF8", `Do/Binary/Value Do/Binary/Nested Do/Binary/NotUTF8 Batch/Results`},
	{"nested-strings-are-trimmed", `Do/Binary/Nested`},

	// Error replies.
	{"error-is-plain", `
		Do/Error/ERR Do/Error/NOSCRIPT Do/Error/WRONGTYPE Do/Error/Custom Do/Error/ThenWorks Do/Error/Transient
		Batch/Results Describe/Mode Describe/RunID Describe/Refused`},
	{"error-is-value", `
		Do/Error/ERR Do/Error/NOSCRIPT Do/Error/WRONGTYPE Do/Error/Custom Do/Error/ThenWorks Do/Error/Transient
		Batch/Results`},
	{"value-beside-error", `Do/Error/ERR Do/Error/NOSCRIPT Do/Error/WRONGTYPE Do/Error/Custom Do/Error/ThenWorks`},
	{"strips-ERR", `Do/Error/ERR Batch/Results`},
	{"unknown-code-is-ERR", `Do/Error/Custom Do/Error/ThenWorks Do/Error/Transient Batch/Results`},
	{"code-is-first-word", `Do/Error/Code`},
	{"word-in-capitals-is-code", `Do/Error/Code`},
	{"error-quotes-arguments", `Do/Error/Code`},
	{"error-reply-loses-slot", `Do/Error/ThenWorks`},
	{"resends-transient", `Do/Error/Transient`},

	// Arguments.
	{"drops-nul", `Do/Binary/Value Do/Binary/Key Do/Binary/Nested Batch/Results`},
	{"key-ends-at-newline", `Do/Binary/Key`},
	{"drops-empty-args", `Do/Args/Empty`},
	{"no-name-is-sent", `Do/Args/NoName Batch/NoName`},
	{"no-name-has-no-reply", `Do/Args/NoName Batch/NoName`},
	{"args-limit", `Do/Args/Many`},
	{"value-limit", `Do/Args/Large`},
	{"upper-cases-in-place", `Do/Args/Unchanged`},
	{"keeps-args", `Do/Args/NotKept`},
	{"key-is-first-argument", `Do/Keys/Anywhere`},

	// At most once, and what is known.
	{"resends", `
		Do/LostRequest/Unknown Do/LostReply/Unknown Do/LostReply/Half Do/LostReply/Silence
		Do/LostRequest/BlackHole Do/LostReply/ReadOnly Do/LostReply/Script Do/Bounded/Silence`},
	{"resends-reads", `Do/LostReply/ReadOnly`},
	{"resends-failed-write", `Do/LostReply/Write`},
	{"write-error-is-not-sent", `Do/LostReply/Write Batch/LostRequest/Large Do/StalledWrite/Bounded Batch/StalledWrite`},
	{"resends-on-stale", `
		Do/LostRequest/Unknown Do/LostReply/Unknown Do/LostReply/ReadOnly Do/LostReply/Script Batch/LostRequest`},
	{"unknown-is-not-sent", `
		Do/LostRequest/Unknown Do/LostReply/Unknown Do/LostReply/Half Do/LostReply/Silence
		Do/LostRequest/BlackHole Do/LostReply/Script Batch/LostReply Batch/LostReply/Large
		Batch/LostRequest Batch/LostRequest/Large Batch/Bounded`},
	{"abandoned-is-not-sent", `
		Do/AtMostOnce/LateRequest Do/Ctx/DeadlineInFlight Do/Ctx/CancelInFlight Do/StalledWrite/Ctx Batch/Ctx/InFlight`},
	{"lost-reply-is-reply", `
		Do/LostReply/Unknown Do/AtMostOnce/StaleConnection Do/Recover/Killed Do/Bounded/Silence Batch/LostReply Batch/LostRequest`},
	{"queues-when-refused", `Do/NotSent/Refused`},
	{"queues-when-dial-hangs", `Do/NotSent/HungDial`},
	{"batch-queues-when-refused", `Batch/NotSent`},
	{"batch-queues-when-dial-hangs", `Batch/NotSent/HungDial`},
	{"not-sent-is-unknown", `Do/Ctx/EndedBefore Batch/Ctx/EndedBefore Close/ErrClosed Close/Batch`},
	{"no-connection-is-nil", `
		Connector/ConnectAgain Config/DB/Refused Config/TLS Silent/WrongPassword Do/NotSent/Refused Do/Refused/NotReplied
		Do/Bounded/Refused Close/WhileDialing Batch/NotSent`},
	{"dial-error-is-reply", `Do/Refused/NotReplied Do/Bounded/HungDial Do/Bounded/Refused`},
	{"handshake-error-is-reply", `Do/Refused/Handshake Batch/Refused`},
	{"refused-handshake-is-for-good", `Do/Refused/Handshake Batch/Refused`},

	// Contexts and timeouts.
	{"sends-with-ended-ctx", `Do/Ctx/EndedBefore Batch/Ctx/EndedBefore`},
	{"ignores-deadline", `Do/Ctx/DeadlineInFlight Do/Ctx/HungDial/Deadline Do/Ctx/BlackHole Do/Ctx/PoolExhausted`},
	{"ignores-cancel", `
		Do/Ctx/CancelInFlight Do/Ctx/HungDial/Cancel
		Do/Ctx/HungHandshake Do/Ctx/BlackHole Do/Ctx/PoolExhausted`},
	{"ctx-error-hidden", `
		Do/Ctx/EndedBefore Do/Ctx/DeadlineInFlight Do/Ctx/CancelInFlight Do/Ctx/BlackHole Batch/Ctx/EndedBefore Batch/Ctx/InFlight`},
	{"returns-the-cause-of-ctx", `
		Do/Ctx/DeadlineInFlight Do/Ctx/CancelInFlight Do/Ctx/BlackHole Do/StalledWrite/Ctx Batch/Ctx/InFlight
		Describe/Ctx`},
	{"dials-are-shared", `Do/Ctx/DialOfAnother`},
	{"first-dial-is-shared", `Do/Ctx/DialOfAnother`},
	{"dial-ignores-ctx", `
		Do/Ctx/HungDial/Deadline Do/Ctx/HungDial/Cancel Do/Ctx/HungHandshake Do/Ctx/BlackHole
		Subscribe/Close/Outage`},
	{"handshake-ignores-ctx", `Do/Ctx/HungHandshake Do/StalledWrite/Ctx Close/HungHandshakes`},
	{"pool-ignores-ctx", `Do/Ctx/PoolExhausted`},
	{"own-timeout-is-ctx-error", `Do/Bounded/Silence Do/Bounded/BlackHole Do/Bounded/HungDial Batch/Bounded`},
	{"no-timeout", `Do/Bounded/Silence Do/Bounded/BlackHole Batch/Bounded`},
	{"deadline-replaces-timeout", `Do/Bounded/FarDeadline Batch/Bounded/FarDeadline`},
	{"deadline-replaces-dial-timeout", `Do/Bounded/FarDeadline Batch/Bounded/FarDeadline`},
	{"deadline-replaces-pool-timeout", `Do/Bounded/FarDeadline Batch/Bounded/FarDeadline`},
	{"write-has-no-deadline", `Do/StalledWrite/Bounded Batch/StalledWrite`},
	{"write-ignores-ctx", `Do/StalledWrite/Ctx Batch/StalledWrite`},
	{"stale-write-deadline", `Do/StaleDeadline Do/StalledWrite/Bounded Batch/StalledWrite`},
	{"no-dial-timeout", `Do/Bounded/BlackHole Do/Bounded/HungDial`},
	{"handshake-replies-have-no-timeout", `Do/Bounded/HungHandshake`},
	{"no-pool-timeout", `Do/Bounded/PoolExhausted`},
	{"pool-timeout-is-ctx-error", `Do/Bounded/PoolExhausted`},
	{"redials-for-ever", `Do/Bounded/BlackHole Do/Bounded/HungDial Do/Bounded/Refused Close/WhileDialing`},

	// Recovery and correlation.
	{"pool-keeps-broken", `
		Do/AtMostOnce/StaleConnection Do/Recover/Killed Do/Recover/Refused Do/Recover/Partition
		Do/Recover/HalfReply Do/Correlation/AbandonedCall Do/Correlation/ConcurrentAbandoned`},
	{"pool-keeps-pending", `
		Do/Ctx/DeadlineInFlight Do/Ctx/CancelInFlight Do/Correlation/AbandonedCall
		Do/Correlation/ConcurrentAbandoned Batch/Ctx/InFlight`},
	{"keeps-former-master", `Do/Recover/ReadOnly Batch/Recover/ReadOnly`},
	{"sees-former-master-in-first-reply", `Batch/Recover/ReadOnly`},
	{"knows-former-master-by-first-word", `Do/Recover/ReadOnly/Script Batch/Recover/ReadOnly/Script`},
	{"array-ends-at-error", `Do/Correlation/NestedTypedError Batch/Correlation/NestedTypedError`},
	{"array-ends-at-error-in-batch", `Batch/Correlation/NestedTypedError`},
	{"dial-holds-the-pool", `Do/Concurrent/HungDial`},
	{"abandoned-leaks-slot", `Do/Concurrent/HeldReply Do/Concurrent/Abandoned`},
	{"broken-connections-stay-open", `
		Do/Recover/Abandoned Do/LostReply/Silence Do/Bounded/BlackHole Do/Recover/Partition Do/StalledWrite/Ctx
		Batch/Bounded Close/Goroutines`},
	{"broken-connections-stay-open-until-close", `Do/Recover/Abandoned`},
	{"pool-fails-when-busy", `Do/Ctx/PoolExhausted Do/Correlation/Concurrent Do/Concurrent/Counter Batch/Concurrent`},
	{"lost-connection-is-closed", `Do/LostRequest/Unknown Do/LostReply/Unknown Do/AtMostOnce/StaleConnection Do/Recover/Killed Batch/LostReply`},
	{"no-connection-is-closed", `Do/Bounded/Refused Do/Recover/Refused Batch/NotSent`},
	{"first-dial-is-for-good", `Do/Recover/First`},
	{"breaker-stays-open", `Do/Recover/Refused Subscribe/Outage`},

	// Close.
	{"close-twice-fails", `Close/Idempotent`},
	{"close-twice-hangs", `Close/Idempotent Close/Concurrent`},
	{"close-twice-panics", `Close/Idempotent Close/Concurrent`},
	{"close-unused-hangs", `Close/Unused`},
	{"close-waits", `
		Close/InFlight Close/NotSent Close/WhileDialing Close/HungHandshakes Close/PoolExhausted Close/BlackHole Close/StalledWrite`},
	{"close-leaves-calls", `Close/InFlight Close/PoolExhausted Close/BlackHole Close/StalledWrite Batch/Close`},
	{"close-leaves-dials", `Close/WhileDialing`},
	{"close-is-not-told", `Close/InFlight Batch/Close`},
	{"dial-at-close-is-not-told", `Close/NotSent`},
	{"at-close-is-not-sent", `Close/InFlight Close/StalledWrite Batch/Close`},
	{"close-leaves-subscriptions-that-connect", `Close/Subscribing`},
	{"sends-after-close", `Close/NotSent`},
	{"cancel-beside-close-panics", `Close/PoolExhausted`},
	{"failed-handshake-leaves-connection", `Close/RefusedHandshakes Close/HungHandshakes`},
	{"close-leaves-connections", `Close/Connections Close/InFlight Close/BlackHole Subscribe/ConnClose`},
	{"close-leaves-subscriptions", `Subscribe/ConnClose`},
	{"close-leaks-goroutine", `Close/Goroutines Close/Unused Do/Reply/Nil Subscribe/Message`},
	{"works-after-close", `
		Close/ErrClosed Close/InFlight Close/BlackHole Close/Batch Close/Subscribe Close/Describe
		Close/OtherConn`},
	{"subscribe-after-close", `Close/Subscribe`},

	// Batches.
	{"batch-hangs-at-close", `Batch/Close`},
	{"batch-fails-as-one", `Batch/Results`},
	{"batch-empty-is-nil", `Batch/Results`},
	{"batch-numbers-are-integers", `Batch/Results`},
	{"batch-forgets-one", `Batch/One`},
	{"batch-has-one-too-many", `Batch/Order Batch/Results Batch/Empty Batch/One`},
	{"batch-that-fails-is-nil", `
		Batch/LostReply Batch/LostRequest Batch/Close Batch/NotSent Batch/Ctx/EndedBefore Batch/Ctx/InFlight
		Batch/Bounded Close/Batch`},
	{"batch-goes-on", `Batch/Ctx/Late`},
	{"batch-ignores-ctx", `Batch/Ctx/InFlight`},
	{"batch-waits-without-ctx", `Batch/Ctx/HungDial/Deadline Batch/Ctx/HungDial/Cancel Batch/Ctx/PoolExhausted`},
	{"batch-in-parallel", `Batch/Order `},
	{"batch-in-parts", `Batch/Order/Many`},
	{"batch-keeps-args", `Batch/NotKept`},
	{"batch-limit", `Batch/Thousand`},
	{"batch-panics-when-empty", `Batch/Empty`},
	{"batch-resends", `Batch/LostReply Batch/LostReply/Large Batch/LostRequest Batch/Bounded`},
	{"batch-resends-transient", `Batch/Transient`},
	{"batch-reversed", `Batch/Order Batch/Results Batch/Ctx/InFlight`},
	{"batch-stops-at-error", `Batch/Results Batch/LostReply Batch/Ctx/EndedBefore`},
	{"batch-upper-cases-in-place", `Batch/Unchanged`},

	// Subscriptions.
	{"sub-add-nothing-fails", `Subscribe/AddNothing`},
	{"sub-add-twice-fails", `Subscribe/AddTwice Subscribe/ConcurrentAdd Subscribe/Gap/DuringAdd`},
	{"sub-add-trusts-what-is-being-removed", `Subscribe/Ctx/Remove`},
	{"sub-add-twice-hears-twice", `Subscribe/AddTwice`},
	{"sub-add-without-ack", `
		Subscribe/Ack Subscribe/AtOnce Subscribe/Ctx/Add
		Subscribe/Ctx/HungDial Subscribe/Close/Add`},
	{"sub-add-waits-for-one-ack", `Subscribe/Ack/Each`},
	{"sub-added-already-needs-no-ack", `Subscribe/Ack/Concurrent`},
	{"sub-adds-first-only", `Subscribe/AddSeveral Subscribe/Remove Subscribe/Gap/AllChannels`},
	{"sub-close-is-not-told", `
		Subscribe/Close Subscribe/ConnClose Subscribe/Close/Add Subscribe/Close/Listen Close/Subscribing`},
	{"sub-close-leaves-connection", `Subscribe/OneConnection Subscribe/ConnClose Subscribe/Close/Outage`},
	{"sub-close-leaves-waiters", `Subscribe/Close Subscribe/ConnClose Subscribe/Close/Add`},
	{"sub-close-twice-fails", `Subscribe/Close`},
	{"sub-closes-all", `Subscribe/Two`},
	{"sub-dial-has-no-timeout", `Subscribe/HungDial`},
	{"sub-dial-holds-the-pool", `Subscribe/HungDial/Calls`},
	{"sub-dies-with-ctx", `Subscribe/OutlivesItsCtx`},
	{"sub-drops-when-unread", `Subscribe/Message Subscribe/WithoutReceive`},
	{"sub-drops-above-500", `Subscribe/Flood`},
	{"sub-drops-TLS", `Subscribe/TLS`},
	{"sub-drops-username", `Subscribe/Username`},
	{"sub-gap-at-first-ack", `Subscribe/Gap/Restored`},
	{"sub-gap-at-loss", `Subscribe/Gap/Restored`},
	{"sub-gap-too-early", `Subscribe/Gap/Restored`},
	{"sub-gives-no-channel", `Subscribe/Message Subscribe/Gap Subscribe/Listen`},
	{"sub-given-up-add-is-undone", `Subscribe/Ctx/Add`},
	{"sub-handshake-no-timeout", `Subscribe/HungHandshake`},
	{"sub-forgets-channels", `
		Subscribe/Gap Subscribe/Gap/AllChannels Subscribe/Gap/Unread Subscribe/Gap/DuringAdd Subscribe/BlackHole
		Subscribe/BlackHole/Idle Subscribe/Outage`},
	{"sub-forgets-what-is-refused", `Subscribe/Gap/Refused`},
	{"sub-forgets-what-was-not-restored", `Subscribe/Gap/Twice`},
	{"sub-has-a-connection-for-each-add", `Subscribe/OneConnection`},
	{"sub-ignores-ctx", `
		Subscribe/Ctx/Receive Subscribe/Quiet Subscribe/Outage Subscribe/Ctx/Add Subscribe/Ctx/Remove
		Subscribe/Ctx/HungDial`},
	{"sub-ignores-refusal", `Subscribe/NoPerm`},
	{"sub-is-shared", `Subscribe/Two`},
	{"sub-listen-ends-with-nil", `Subscribe/Ctx/Listen Subscribe/Close/Listen`},
	{"sub-listen-forgets-what-was-before", `Subscribe/Listen Subscribe/Ctx/NoLoss/Listen`},
	{"sub-listen-hears-no-gap", `Subscribe/Listen Subscribe/Ctx/NoLoss/Listen`},
	{"sub-listen-hears-two-at-a-time", `Subscribe/Listen`},
	{"sub-listen-hears-on", `Subscribe/Ctx/Listen Subscribe/Ctx/NoLoss/Listen`},
	{"sub-listen-ignores-ctx", `Subscribe/Ctx/Listen Subscribe/Ctx/NoLoss/Listen`},
	{"sub-listen-loses-at-its-end", `Subscribe/Ctx/NoLoss/Listen`},
	{"sub-listen-outlives-close", `Subscribe/Close/Listen`},
	{"sub-listen-tells-of-its-end", `Subscribe/Ctx/Listen`},
	{"sub-never-pings", `Subscribe/BlackHole Subscribe/BlackHole/Idle`},
	{"sub-unwatched-while-adding", `Subscribe/BlackHole/Add`},
	{"sub-unwatched-while-restoring", `Subscribe/BlackHole/Resubscribe`},
	{"sub-never-reconnects", `
		Subscribe/Gap Subscribe/Gap/AllChannels Subscribe/Gap/Unread Subscribe/Gap/DuringAdd Subscribe/BlackHole
		Subscribe/BlackHole/Idle Subscribe/Outage`},
	{"sub-no-gap", `
		Subscribe/Gap Subscribe/Gap/AllChannels Subscribe/Gap/Unread Subscribe/Gap/DuringAdd Subscribe/BlackHole
		Subscribe/BlackHole/Idle`},
	{"sub-reads-in-receive", `Subscribe/WithoutReceive Subscribe/Gap/Unread`},
	{"publish-counts-nothing", `Subscribe/Count`},
	{"sub-receive-loses", `Subscribe/Ctx/NoLoss`},
	{"sub-receive-loses-gap", `Subscribe/Ctx/NoLoss/Gap`},
	{"sub-refusal-is-plain", `Subscribe/NoPerm`},
	{"sub-refusal-is-received", `Subscribe/NoPerm`},
	{"sub-refused-handshake-is-for-good", `Subscribe/Outage`},
	{"sub-receive-polls", `Subscribe/Waiting Subscribe/Close`},
	{"sub-remove-does-nothing", `Subscribe/Remove Subscribe/ConcurrentAdd Subscribe/Ctx/Remove`},
	{"sub-remove-is-not-sent", `Subscribe/Remove`},
	{"sub-remove-unknown-fails", `Subscribe/RemoveUnknown`},
	{"sub-remove-without-ack", `Subscribe/Ctx/Remove`},
	{"sub-removes-from-all", `Subscribe/Two/Remove`},
	{"sub-restores-what-was-removed", `Subscribe/Gap/AllChannels`},
	{"sub-restores-one", `Subscribe/Gap/AllChannels Subscribe/Gap/DuringAdd`},
	{"sub-leaves-dead-connections-open", `Subscribe/BlackHole Subscribe/BlackHole/Idle Subscribe/BlackHole/Add`},
	{"sub-returns-the-cause-of-ctx", `
		Subscribe/Ctx/Receive Subscribe/Ctx/Add Subscribe/Ctx/Remove Subscribe/Ctx/HungDial Subscribe/Ctx/Listen`},
	{"sub-takes-a-place-of-the-pool", `Subscribe/PoolSize`},
	{"sub-trims-payload", `Subscribe/Binary`},
	{"sub-unix-is-tcp", `Subscribe/Unix`},

	// Describe.
	{"describe-fails-when-refused", `Describe/Refused`},
	{"describe-takes-not-now-for-never", `Describe/NotNow`},
	{"describe-asks-once", `Describe/Restart`},
	{"describe-invents-run-id", `Describe/RunID Describe/Refused`},
	{"describe-says-cluster", `Describe/Mode`},
	{"describe-swallows-errors", `Close/Describe Describe/Ctx Describe/Unanswered`},
}

// realMutants are found by cases that need a real server.
var realMutants = []mutant{
	{"nested-types-are-kept", `Do/Reply/Typed`},
	{"verbatim-keeps-format", `Do/Reply/Typed`},
	{"close-leaks-goroutine", `Close/Goroutines`}, // in a bubble each case ends with that
}

// contract selects the level of the suite that is about the driver alone.
var contract = conformance.Only("Capabilities", "Connector", "Config", "Silent", "Do", "Close", "Batch", "Subscribe", "Describe")

// withoutRaceDetector skips a test whose subject is what the suite finds and not who
// accesses what, which shows elsewhere: it would take several times as long. "make mutants" runs
// those that call it.
func withoutRaceDetector(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("it runs without the race detector: make mutants")
	}
}

// TestMutants shows that the suite finds what it says it looks for. What breaks much meets
// all of the contract's cases, which have to come to their end all the same.
func TestMutants(t *testing.T) {
	withoutRaceDetector(t)
	for _, m := range mutants {
		t.Run(string(m.bug), func(t *testing.T) {
			t.Parallel()
			cases := conformance.Only(strings.Fields(m.fails)...)
			if len(strings.Fields(m.fails)) > 2 {
				cases = contract
			}
			requireKilled(t, m, conformance.Run(t, harness(m.bug), cases))
		})
	}
}

func TestMutantsOnRealServer(t *testing.T) {
	withoutRaceDetector(t)
	addr := startRedis(t)
	for _, m := range realMutants {
		t.Run(string(m.bug), func(t *testing.T) {
			requireKilled(t, m, conformance.Run(t, harness(m.bug), conformance.Server(addr),
				conformance.Auth("", realPassword), conformance.Only(strings.Fields(m.fails)...)))
		})
	}
}

func requireKilled(t *testing.T, m mutant, report conformance.Report) {
	t.Helper()
	require.NotEmpty(t, strings.Fields(m.fails))
	require.Error(t, report.Err())
	failed := report.Names(conformance.Failed)
	for _, c := range strings.Fields(m.fails) {
		assert.Contains(t, failed, c, "the suite does not find the bug there")
	}
	t.Logf("fails %v", failed)
}

// TestEveryCaseKills: a case that no bug can fail is worth nothing.
func TestEveryCaseKills(t *testing.T) {
	killed := map[string]bool{}
	for _, m := range slices.Concat(mutants, realMutants) {
		for _, c := range strings.Fields(m.fails) {
			require.Contains(t, conformance.Cases(), c, "mutant %s", m.bug)
			killed[c] = true
		}
	}
	for _, c := range conformance.Cases() {
		if level, _, _ := strings.Cut(c, "/"); !slices.Contains(lockLevels, level) {
			assert.True(t, killed[c], "no mutant is listed for %s", c)
		}
	}
}
