package conformance_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/golocker/golocker/conformance"
)

// Everything that the author of a driver writes, in the driver's own test file:
// replace refDriver by your Driver. The second test runs where there is a server.
func Example() {
	harness := conformance.Harness{
		Open:         refDriver{}.OpenConnector,
		Capabilities: conformance.Capabilities{Batcher: true, Subscriber: true, Listener: true, Describer: true},
	}

	_ = func(t *testing.T) { // func TestConformance(t *testing.T)
		conformance.Test(t, harness)
	}

	_ = func(t *testing.T) { // func TestConformanceOnServer(t *testing.T)
		conformance.Test(t, harness, conformance.Server("127.0.0.1:6379"), conformance.Auth("", "password"))
	}
}

// A client that cannot pass a case names it, with a link to the reason.
func ExampleHarness_known() {
	_ = func(t *testing.T) {
		conformance.Test(t, conformance.Harness{
			Open: refDriver{}.OpenConnector,
			Known: []conformance.Deviation{{
				Case: "Do/Ctx/CancelInFlight",
				Link: "https://example.org/client/issues/42",
				Why:  "the client cannot abandon a command",
			}},
		})
	}
}

// Run gives the findings to a test that judges them itself.
func ExampleRun() {
	_ = func(t *testing.T) {
		options := []conformance.Option{conformance.Only("Do/Reply"), conformance.Server("127.0.0.1:6379")}
		var report conformance.Report = conformance.Run(t, conformance.Harness{Open: refDriver{}.OpenConnector}, options...)
		slowest := slices.MaxFunc(report.Results, func(a, b conformance.Result) int { return cmp.Compare(a.Elapsed, b.Elapsed) })
		t.Log(slowest.Case, slowest.Elapsed)
		uncertain := []conformance.Status{conformance.Skipped, conformance.Known}
		t.Log("not shown:", report.Names(uncertain...))
		if err := report.Err(); err != nil {
			t.Error(err)
		}
	}
}
