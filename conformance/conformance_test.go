package conformance_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/locker/driver"
)

func harness(b bug) conformance.Harness {
	return conformance.Harness{
		Open:         refDriver{bug: b}.OpenConnector,
		Capabilities: conformance.Capabilities{Batcher: true, Subscriber: true, Listener: true, Describer: true},
	}
}

func TestReference(t *testing.T) {
	conformance.Test(t, harness(""), contract)
}

// What few drivers do, and the contract allows, passes.
func TestUnusualDrivers(t *testing.T) {
	withoutRaceDetector(t)
	for b, cases := range map[bug]conformance.Option{
		deadlineOnSocket: conformance.Only("Do/Ctx", "Do/Bounded", "Do/Recover", "Batch/Ctx"),
		batchIsSerial:    conformance.Only("Batch"),
		beginsFull:       conformance.Only("Close", "Config", "Connector", "Do/Bounded", "Do/Recover", "Do/NotSent", "Batch/NotSent", "Batch/Ctx"),
		fillsItself:      conformance.Only("Do/Recover/Killed", "Do/NotSent", "Do/Bounded/Refused", "Close", "Subscribe"),
		keepsNone:        conformance.Only("Do/LostReply", "Do/LostRequest", "Do/StalledWrite", "Batch/StalledWrite", "Close/StalledWrite"),
	} {
		t.Run(string(b), func(t *testing.T) {
			for range 10 {
				require.NoError(t, conformance.Run(t, harness(b), cases).Err())
			}
		})
	}
}

// A client may look up the host that it is given, although it is told how to dial: go-redis does so, and of
// the path of a socket as well. What package net keeps for that must not belong to the bubble of a case.
func TestClientThatLooksUpItsHost(t *testing.T) {
	h := harness("")
	open := h.Open
	h.Open = func(cfg driver.Config) (driver.Connector, error) {
		_, _ = net.DefaultResolver.LookupHost(context.Background(), "localhost")
		return open(cfg)
	}
	require.NoError(t, conformance.Run(t, h, conformance.Only("Connector")).Err())
}

// What the safety of locks depends on is not excused, neither as a case nor in passing.
func TestInexcusable(t *testing.T) {
	excuse := func(b bug, name string) conformance.Report {
		h := harness(b)
		h.Known = []conformance.Deviation{{Case: name, Link: "https://example.org/issue/1", Why: "the client is like that"}}
		return conformance.Run(t, h, conformance.Only(name))
	}
	for _, name := range []string{
		"Do/LostReply/Unknown", "Do/LostRequest/Unknown", "Do/AtMostOnce/LateRequest", "Do/NotSent/Refused", "Do/Correlation/AbandonedCall",
		"Do/Correlation/ConcurrentAbandoned", "Do/Refused/Handshake", "Batch/LostReply", "Batch/LostRequest", "Batch/Refused", "Batch/Concurrent",
		"Batch/LostReply/Large", "Batch/LostRequest/Large", "Batch/Transient", "Batch/Close",
		"Config/DB/Refused", "Close/NotSent",
		"Do/Correlation/NestedTypedError", "Batch/Correlation/NestedTypedError",
	} {
		require.ErrorContains(t, excuse("", name).Err(), "cannot be a known deviation", name)
	}
	report := excuse("ctx-error-hidden", "Do/Ctx/CancelInFlight")
	assert.Equal(t, []string{"Do/Ctx/CancelInFlight"}, report.Names(conformance.Known))
	report = excuse("abandoned-is-not-sent", "Do/Ctx/CancelInFlight")
	assert.Equal(t, []string{"Do/Ctx/CancelInFlight"}, report.Names(conformance.Failed))
	report = excuse("resends", "Do/Bounded/Silence")
	assert.Equal(t, []string{"Do/Bounded/Silence"}, report.Names(conformance.Failed))
}

// A client that cannot take a dialer is tested through TCP, in real time.
func TestTCPOnly(t *testing.T) {
	h := harness("")
	h.Open = func(cfg driver.Config) (driver.Connector, error) {
		require.Nil(t, cfg.Dial)
		return refDriver{}.OpenConnector(cfg)
	}
	h.TCPOnly = true
	report := conformance.Run(t, h, conformance.Only("Do/Reply", "Do/Recover", "Do/LostReply", "Close", "Subscribe/Gap"))
	require.NoError(t, report.Err())
	assert.Equal(t, []string{"Do/Reply/Typed", "Do/LostReply/Write", "Close/StalledWrite"}, report.Names(conformance.Skipped),
		"they need a real server, and connections that are no sockets")
}

// A call that does not return is shown, in real time as well.
func TestBlockedCallIsShown(t *testing.T) {
	t.Parallel() // it waits
	h := harness("close-hangs-in-mutex")
	h.TCPOnly = true
	report := conformance.Run(t, h, conformance.Only("Do/Reply/Status"))
	assert.ErrorContains(t, report.Err(), "(*refConn).Close(")
	assert.NotContains(t, report.Err().Error(), "testing.tRunner(")
}

// What the driver has not sent cannot arrive late, and that is not the suite's fault.
func TestRequestThatIsNotWrittenIsToldSo(t *testing.T) {
	h := lockHarness(lockMutant{breaks: commands(func(ctx context.Context, cmd driver.Command, next do) (driver.Value, error) {
		if cmd.Name() == "INCR" {
			<-ctx.Done()
			return nil, driver.NotSent(ctx.Err())
		}
		return next(ctx, cmd)
	})})
	report := conformance.Run(t, h, conformance.Only("Do/AtMostOnce/LateRequest"))
	assert.ErrorContains(t, report.Err(), "had not been written by then")
	assert.NotContains(t, report.Err().Error(), "the suite is at fault")
}

// A driver without optional interfaces: their cases are skipped, the rest holds.
func TestBareConn(t *testing.T) {
	h := conformance.Harness{Open: func(cfg driver.Config) (driver.Connector, error) {
		c, err := refDriver{}.OpenConnector(cfg)
		return bareConnector{c}, err
	}}
	report := conformance.Run(t, h, contract)
	require.NoError(t, report.Err())
	assert.Subset(t, report.Names(conformance.Skipped), []string{"Batch/Order", "Subscribe/Ack", "Describe/Mode", "Close/Batch"})
	assert.Contains(t, report.Names(conformance.Passed), "Do/Reply/Nil")
}

type bareConnector struct{ driver.Connector }

func (c bareConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return driver.Wrapper{Conn: conn}, nil
}

func TestUndeclaredCapabilityFails(t *testing.T) {
	h := harness("")
	h.Capabilities.Describer = false
	report := conformance.Run(t, h, conformance.Only("Capabilities", "Describe"))
	assert.Equal(t, []string{"Capabilities/Declared"}, report.Names(conformance.Failed))
	assert.ErrorContains(t, report.Err(), "Describer:true")
}

// The Conn of a wrapper that forwards nothing, by somebody who believes that it does. The report says
// so, instead of ending with the program.
func TestLostCapabilitiesAreReported(t *testing.T) {
	h := harness("")
	open := h.Open
	h.Open = func(cfg driver.Config) (driver.Connector, error) {
		c, err := open(cfg)
		return bareConnector{c}, err
	}
	report := conformance.Run(t, h, conformance.Only("Capabilities", "Batch/Order/Many", "Subscribe/Ack/Each", "Describe/Mode", "Lock/Queue/OldGrantIgnored"))
	assert.Equal(t, []string{"Capabilities/Declared", "Batch/Order/Many", "Subscribe/Ack/Each", "Describe/Mode", "Lock/Queue/OldGrantIgnored"},
		report.Names(conformance.Failed))
	assert.ErrorContains(t, report.Err(), "Subscriber:false")
}

func TestKnown(t *testing.T) {
	known := conformance.Deviation{Case: "Do/Reply/EmptyBulk", Link: "https://example.org/issue/1", Why: "the client cannot tell"}
	only := conformance.Only("Do/Reply/EmptyBulk", "Do/Reply/Bulk")

	h := harness("empty-is-nil")
	h.Known = []conformance.Deviation{known}
	report := conformance.Run(t, h, only)
	require.NoError(t, report.Err(), "what is known does not fail the run")
	assert.Equal(t, []string{known.Case}, report.Names(conformance.Known))

	h = harness("")
	h.Known = []conformance.Deviation{known}
	report = conformance.Run(t, h, only)
	assert.Equal(t, []string{known.Case}, report.Names(conformance.Stale))
	require.ErrorContains(t, report.Err(), "remove it from Harness.Known")
	require.ErrorContains(t, report.Err(), known.Link)
}

// A server that cannot be used is told once, and not by each of the cases.
func TestServerIsChecked(t *testing.T) {
	listen := func(answer func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				answer(c)
			}
		}()
		return l.Addr().String()
	}
	protected := miniredis.RunT(t)
	protected.RequireAuth("5ecret-pa55word")
	for why, opts := range map[string][]conformance.Option{
		"refused":              {conformance.Server("127.0.0.1:1")},
		"EOF":                  {conformance.Server(listen(func(c net.Conn) { _, _ = c.Read(make([]byte, 64)); _ = c.Close() }))},
		"i/o timeout":          {conformance.Server(listen(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))},
		"wants authentication": {conformance.Server(protected.Addr())},
		"WRONGPASS":            {conformance.Server(protected.Addr()), conformance.Auth("", "0ther-pa55word")},
	} {
		report := conformance.Run(t, harness(""), opts...)
		require.Len(t, report.Results, 1, why)
		require.ErrorContains(t, report.Err(), why)
		assert.NotContains(t, report.Err().Error(), "pa55word")
	}
}

func TestHarnessIsChecked(t *testing.T) {
	for want, h := range map[string]conformance.Harness{
		"Open is nil":   {},
		"has no link":   {Open: refDriver{}.OpenConnector, Known: []conformance.Deviation{{Case: "Do/Reply/Nil", Why: "because"}}},
		"names no case": {Open: refDriver{}.OpenConnector, Known: []conformance.Deviation{{Case: "Do/Reply/Nill", Link: "x"}}},
	} {
		report := conformance.Run(t, h, conformance.Only("Do/Reply/Nil"))
		assert.Len(t, report.Results, 1)
		assert.ErrorContains(t, report.Err(), want)
	}
}

// A clause with a slip in it would pass, whatever the driver does.
func TestOnlyOfNoCaseFails(t *testing.T) {
	for name, opts := range map[string][]conformance.Option{
		"unknown":             {conformance.Only("Do/Reply/Nill")},
		"half a word":         {conformance.Only("Do/Rep")},
		"beside a known one":  {conformance.Only("Do/Reply/Nil", "DO/Reply")},
		"nothing":             {conformance.Only("")},
		"of no use to Quorum": {conformance.Only("Do/Reply/Nil"), conformance.Quorum(3)},
		"with a server":       {conformance.Only("Do/Reply/Nill"), conformance.Server("127.0.0.1:1")},
	} {
		t.Run(name, func(t *testing.T) {
			report := conformance.Run(t, harness(""), opts...)
			assert.Equal(t, []string{"Harness"}, report.Names(conformance.Failed))
			assert.ErrorContains(t, report.Err(), "of Only selects no case")
			assert.Len(t, report.Results, 1)
		})
	}
}

// What would end or hang the test process is a failure of the case, and says why.
func TestCatastrophes(t *testing.T) {
	for b, c := range map[bug]struct{ name, want string }{
		"panics":                {"Do/Reply/Nil", "panicked: a bug"},
		"hangs":                 {"Do/Reply/Nil", "blocked for ever"},
		"close-unused-hangs":    {"Close/Unused", "has not returned"},
		"close-leaks-goroutine": {"Do/Reply/Nil", "(*refConn).Close.func"},
		"writes-nonsense":       {"Do/Reply/Nil", "not the Redis protocol"},
	} {
		t.Run(string(b), func(t *testing.T) {
			report := conformance.Run(t, harness(b), conformance.Only(c.name))
			assert.Equal(t, []string{c.name}, report.Names(conformance.Failed))
			assert.ErrorContains(t, report.Err(), c.want)
		})
	}
}

// What makes every case fail is told once.
func TestNothingToTest(t *testing.T) {
	for b, want := range map[bug]string{
		"ignores-dial":      "use Config.Dial, or set Harness.TCPOnly",
		"connect-fails":     "not today",
		"connect-gives-nil": "Connect gave neither a Conn nor an error",
	} {
		for name, opts := range map[string][]conformance.Option{
			"all": nil, "a case": {conformance.Only("Do/Reply/Nil", "Do/Reply/Map")}, "locks": {conformance.Only("Lock")},
		} {
			t.Run(string(b)+"/"+name, func(t *testing.T) {
				report := conformance.Run(t, harness(b), opts...)
				assert.Len(t, report.Names(conformance.Failed), 1)
				assert.ErrorContains(t, report.Err(), want)
				assert.Len(t, report.Names(conformance.Skipped), len(report.Results)-1)
			})
		}
	}
}

// A driver that panics would end the process from within the core's own goroutines.
func TestNoLocksThroughDriverThatPanics(t *testing.T) {
	t.Run("seen", func(t *testing.T) {
		report := conformance.Run(t, harness("panics"), conformance.Only("Do/Reply", "Lock/Mutex"))
		assert.Contains(t, report.Names(conformance.Failed), "Do/Reply/Nil")
		assert.NotContains(t, report.Names(conformance.Skipped), "Do/Reply/Map")
		assert.Contains(t, report.Names(conformance.Skipped), "Lock/Mutex/Exclusion")
	})
	t.Run("locks alone", func(t *testing.T) {
		report := conformance.Run(t, harness("panics"), conformance.Only("Lock/Mutex"))
		assert.Equal(t, []string{"Lock/Mutex/Exclusion"}, report.Names(conformance.Failed))
		assert.ErrorContains(t, report.Err(), "the driver panicked in the case Capabilities/Declared: a bug")
	})
}

func TestSubscribeWithoutSubscription(t *testing.T) {
	report := conformance.Run(t, harness("subscribe-gives-nil"), conformance.Only("Subscribe", "Close/Subscribe", "Lock/WakeUp/LostMessage"))
	assert.Subset(t, report.Names(conformance.Failed), []string{"Subscribe/Ack", "Close/Subscribe"})
	assert.ErrorContains(t, report.Err(), "Subscribe gave neither a Subscription nor an error")
	assert.NotContains(t, report.Err().Error(), "panicked")
}

// A mutex that is held while something is waited for stops a bubble's clock, and would cost
// each case the limit.
func TestStandstill(t *testing.T) {
	withoutRaceDetector(t)
	for b, cases := range map[bug][]string{
		"holds-mutex": {"Do/Ctx/PoolExhausted", "Close/InFlight", "Do/Reply/Nil"},
		"spins":       {"Do/Ctx/EndedBefore", "Do/Ctx/DeadlineInFlight"},
	} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			report := conformance.Run(t, harness(b), conformance.Only(cases...))
			assert.Less(t, time.Since(begun), 40*time.Second)
			assert.ErrorContains(t, report.Err(), "set Harness.TCPOnly")
			assert.NotEmpty(t, report.Names(conformance.Skipped))
			assert.Len(t, report.Names(conformance.Failed), 1)
		})
	}
}

// A Close that does not return is not followed by another one, which may wait for it in a mutex.
func TestCloseThatHangsIsCalledOnce(t *testing.T) {
	report := conformance.Run(t, harness("close-hangs-in-mutex"), conformance.Only("Close/Unused", "Close/ErrClosed"))
	assert.Equal(t, []string{"Close/ErrClosed", "Close/Unused"}, report.Names(conformance.Failed))
	assert.NotContains(t, report.Err().Error(), "has stood still")
}

// A client may hand an error reply on as a value: that there is no error is what the author has to be told.
func TestErrorReplyAsValueIsToldSo(t *testing.T) {
	report := conformance.Run(t, harness("error-is-value"), conformance.Only("Do/Error/WRONGTYPE", "Do/Error/Transient"))
	for _, r := range report.Results {
		assert.Contains(t, r.Failures[0], "gave no error; want a *driver.ServerError", r.Case)
	}
	assert.ErrorContains(t, report.Err(), "GET gave the value string")
}

// A failure that comes in each round of a case is told once.
func TestFailuresAreToldOnce(t *testing.T) {
	report := conformance.Run(t, harness("unknown-code-is-ERR"), conformance.Only("Do/Error/ThenWorks"))
	assert.Len(t, report.Results[0].Failures, 1)
	assert.ErrorContains(t, report.Err(), "(20 times)")
}

// What has been found until go test's time is over is told, by a process that has little of it.
func TestTimeThatIsOver(t *testing.T) {
	const child = "CONFORMANCE_TIME_IS_OVER"
	if os.Getenv(child) != "" {
		h := harness("ignores-cancel")
		h.TCPOnly = true
		conformance.Test(t, h, conformance.Only("Do/Ctx/CancelInFlight", "Do/Args/NotKept", "Do/Correlation"))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTimeThatIsOver$", "-test.timeout=5s")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "such as -timeout 30m")
	assert.NotContains(t, string(out), "test timed out")
}

// A message on another channel is a fault to tell, and not one to wait for until the run's last resort ends the case.
func TestMessageOnAnotherChannelIsToldSo(t *testing.T) {
	err := conformance.Run(t, harness("sub-gives-no-channel"), conformance.Only("Subscribe/Gap/AllChannels")).Err()
	require.ErrorContains(t, err, `Receive gave (channel "", payload "to a`)
}

func TestCaseNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range conformance.Cases() {
		assert.False(t, seen[c], c)
		seen[c] = true
	}
}
