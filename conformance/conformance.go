// Package conformance tests a driver of [github.com/golocker/golocker/locker]. It is written
// for the author of a driver: one call of [Test] tests, on a single server, everything that
// package [github.com/golocker/golocker/locker/driver] demands, and the name of each subtest is
// the clause it tests. Sentinels and a Cluster are left to the driver's own tests. A program
// that uses an existing driver needs nothing from here.
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, conformance.Harness{
//			Open:         mydriver.Driver{}.OpenConnector,
//			Capabilities: conformance.Capabilities{Batcher: true, Subscriber: true, Listener: true},
//		})
//	}
//
// # Levels
//
// The contract level asks whether the driver keeps the contract. The other levels ask
// whether the locks of package locker keep their promises through it; their cases run
// the library's own clients on the driver's connectors:
//
//   - "Lock/": a mutex, fenced or not, and what all kinds of lock have in common:
//     exclusion, loss in time, renewal, the queue of waiters and its wake-ups, fencing,
//     handing over.
//   - "Reentrant/": the holds of an owner, in one process and in several.
//   - "ReadWrite/": readers share, a writer is alone, nobody starves; upgrade and
//     downgrade.
//
// [Only] selects a level by its name.
//
// # Where it runs
//
// By default every case has a fresh miniredis, reached through an in-memory
// connection (Config.Dial) that the suite can cut, delay and silence (see
// package wire), inside a testing/synctest bubble: timeouts cost no time, a call
// that never returns is reported as such, and so is a goroutine that is left
// after Close. A client that cannot take a dialer sets [Harness.TCPOnly]; it then
// gets a TCP listener and real time.
//
// With the option [Server] the same cases run on a real server, through TCP and in real time,
// and with them a few more, for what miniredis cannot do. The server cannot be a node of a
// Cluster, whose MOVED replies would lead the client around the wire.
//
// # What it relies on
//
// The suite sets these fields of the Config it passes to Open: Mode single,
// Network, Addrs, Username, Password, DialTimeout, Timeout, PoolSize, DB,
// ClientName, TLS and, except on TCP, Dial. A driver may return an error that
// matches driver.ErrUnsupported for DB, ClientName, Username, TLS or the network
// unix; those cases are skipped then.
//
// # Deviations
//
// A case that a client cannot pass is named in [Harness.Known] with a link to the
// reason. It runs all the same: when it passes, the run fails, so that the list
// never outlives its reasons. What the safety of locks depends on cannot be excused.
package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golocker/golocker/locker/driver"
)

// A Harness says how to reach the driver under test and what it claims to be.
type Harness struct {
	// Open makes a connector, usually the method OpenConnector of a Driver.
	Open func(driver.Config) (driver.Connector, error)

	// Capabilities are the optional interfaces of the driver's Conns and of what they
	// give. They must equal those found: a Conn that grows or loses one fails.
	Capabilities Capabilities

	// Known lists the cases that are expected to fail. Cases whose failure would lead to one
	// lock with two holders cannot be among them: those about a command that is written twice,
	// or into another database, about what an error claims to know, and about replies that
	// belong to others.
	Known []Deviation

	// TCPOnly is for a client that ignores Config.Dial, or waits for the network or a timer
	// while it holds a mutex that others wait for. The suite then runs in real time even on miniredis.
	TCPOnly bool
}

// Capabilities are the optional interfaces of a [driver.Conn] and of its Subscriptions.
type Capabilities struct {
	// Each tells whether the Conns have the interface of that name in package driver.
	Batcher    bool
	Subscriber bool
	Describer  bool

	// Listener tells whether the Subscriptions of the Conns have that interface. Those of
	// package pubsub do.
	Listener bool
}

// A Deviation is a case that is expected to fail.
type Deviation struct {
	Case string // the name of the case, such as "Do/Ctx/CancelInFlight"
	Link string // where the reason is tracked; it must not be empty
	Why  string // the reason in a few words
}

// An Option changes how the suite runs.
type Option func(*options)

type options struct {
	addr               string
	username, password string
	as                 *credentials // of the driver, if not the same
	only               []string
	quorum             int // of so many nodes, or 0
}

// Server runs the suite on the server at addr, "host:port", instead of miniredis. The suite
// writes only keys with a random prefix of its own and deletes them, and makes users with ACL
// SETUSER where it may, and deletes them, too. A server that does not answer within ten
// seconds, or wants other credentials, fails the run once.
func Server(addr string) Option { return func(o *options) { o.addr = addr } }

// Auth is how to authenticate with the server of [Server]. Without it the suite does not
// authenticate.
func Auth(username, password string) Option {
	return func(o *options) { o.username, o.password = username, password }
}

// As is how the driver under test authenticates, if not as the suite does: as a user with no
// more permissions than documented, say. The suite itself needs more permissions than locks do.
// A user for As has the keys and channels that begin with "conformance:", also behind up to
// three other bytes, and the commands of the contract's cases.
func As(username, password string) Option {
	return func(o *options) { o.as = &credentials{username, password} }
}

type credentials struct{ username, password string }

// Only runs the cases with one of these names or below them: "Do/Ctx" selects
// "Do/Ctx/EndedBefore", and "ReadWrite" the level of that name. A clause that selects no case
// fails the run. With [Test], go test's -run does the same.
func Only(clauses ...string) Option { return func(o *options) { o.only = clauses } }

// Test runs the suite on h, each case as a subtest of t.
func Test(t *testing.T, h Harness, opts ...Option) {
	t.Helper()
	s := newSuite(h, opts)
	if err := s.validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.cases() {
		t.Run(c.name, func(t *testing.T) {
			r := s.run(t, c)
			switch r.Status {
			case Skipped:
				t.Skip(r.text())
			case Known:
				t.Log(r.text())
			case Failed, Stale:
				t.Error(r.text())
			}
		})
	}
}

// Run runs the suite on h and returns what it found. It fails t only if the race
// detector finds something, which nobody can attribute to a case; t is needed
// for the bubbles.
func Run(t *testing.T, h Harness, opts ...Option) Report {
	t.Helper()
	s := newSuite(h, opts)
	if err := s.validate(); err != nil {
		return Report{Results: []Result{{Case: "Harness", Status: Failed, Failures: []string{err.Error()}}}}
	}
	var report Report
	for _, c := range s.cases() {
		report.Results = append(report.Results, s.run(t, c))
	}
	return report
}

// Cases returns the names of all cases in the order in which they run.
func Cases() []string {
	var names []string
	for _, c := range allCases() {
		names = append(names, c.name)
	}
	return names
}

func (h Harness) validate() error {
	if h.Open == nil {
		return fmt.Errorf("conformance: Harness.Open is nil; set it to your driver's OpenConnector")
	}
	for _, d := range h.Known {
		if d.Link == "" {
			return fmt.Errorf("conformance: the known deviation %q has no link; say where its reason is tracked", d.Case)
		}
		if !slices.Contains(Cases(), d.Case) {
			return fmt.Errorf("conformance: the known deviation %q names no case; see Cases", d.Case)
		}
		if slices.ContainsFunc(inexcusable, func(clause string) bool { return covers(clause, d.Case) }) {
			return fmt.Errorf("conformance: %q cannot be a known deviation: a driver that fails it sooner or later gives one lock to two", d.Case)
		}
	}
	return nil
}

// inexcusable are the clauses on which the safety of locks depends. What the others find of
// that kind in passing, see kit.never, is not excused either.
var inexcusable = []string{
	"Do/LostRequest", "Do/LostReply", "Do/AtMostOnce", "Do/NotSent", "Do/Refused", "Do/Correlation",
	"Batch/Order", "Batch/LostRequest", "Batch/LostReply", "Batch/NotSent", "Batch/Refused",
	"Batch/Transient", "Batch/Close", "Batch/Concurrent", "Batch/Correlation",
	"Config/DB", "Close/NotSent",
}

func (h Harness) known(name string) (Deviation, bool) {
	i := slices.IndexFunc(h.Known, func(d Deviation) bool { return d.Case == name })
	if i < 0 {
		return Deviation{}, false
	}
	return h.Known[i], true
}

func (o options) selects(name string) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, func(clause string) bool { return covers(clause, name) })
}

func covers(clause, name string) bool { return name == clause || strings.HasPrefix(name, clause+"/") }
