package customdriver_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/examples/customdriver"
	"github.com/golocker/golocker/locker/driver"
)

// A deaf Conn stands for a client that notices a deadline, but not that a ctx is
// cancelled.
type deaf struct{ driver.Wrapper }

func (d deaf) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if _, ok := ctx.Deadline(); !ok && ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
	}
	return d.Wrapper.Do(ctx, cmd)
}

type deafConnector struct{ driver.Connector }

func (d deafConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return deaf{driver.Wrapper{Conn: conn}}, nil
}

func openDeaf(cfg driver.Config) (driver.Connector, error) {
	connector, err := customdriver.Driver{}.OpenConnector(cfg)
	if err != nil {
		return nil, err
	}
	return deafConnector{connector}, nil
}

func TestFailureIsReported(t *testing.T) {
	report := conformance.Run(t, conformance.Harness{Open: openDeaf},
		conformance.Only("Do/Ctx/CancelInFlight", "Do/Ctx/DeadlineInFlight"))
	assert.ErrorContains(t, report.Err(), "Do/Ctx/CancelInFlight")
	assert.Equal(t, []string{"Do/Ctx/CancelInFlight"}, report.Names(conformance.Failed))
	assert.Equal(t, []string{"Do/Ctx/DeadlineInFlight"}, report.Names(conformance.Passed))
}

func TestKnownDeviation(t *testing.T) {
	harness := conformance.Harness{
		Open: openDeaf,
		Known: []conformance.Deviation{{
			Case: "Do/Ctx/CancelInFlight",
			Link: "https://github.com/example/client/issues/1",
			Why:  "the client notices deadlines only",
		}},
	}
	report := conformance.Run(t, harness, conformance.Only("Do/Ctx/CancelInFlight"))
	require.NoError(t, report.Err())
	assert.Equal(t, harness.Known[0].Case, report.Results[0].Case)
	assert.Equal(t, conformance.Known, report.Results[0].Status)

	harness.Open = customdriver.Driver{}.OpenConnector // the client has been mended
	harness.Capabilities = allCapabilities
	report = conformance.Run(t, harness, conformance.Only("Do/Ctx/CancelInFlight"))
	assert.Equal(t, conformance.Stale, report.Results[0].Status)
	assert.Error(t, report.Err())
}
