package customdriver_test

import (
	"testing"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/examples/customdriver"
	"github.com/golocker/golocker/internal/servertest"
)

var allCapabilities = conformance.Capabilities{Batcher: true, Subscriber: true, Listener: true, Describer: true}

func TestConformance(t *testing.T) {
	conformance.Test(t, conformance.Harness{
		Open:         customdriver.Driver{}.OpenConnector,
		Capabilities: allCapabilities,
	})
}

func TestConformanceOnServer(t *testing.T) {
	server := servertest.Single(t, servertest.Password("secret"))
	conformance.Test(t, conformance.Harness{
		Open:         customdriver.Driver{}.OpenConnector,
		Capabilities: allCapabilities,
	}, conformance.Server(server.Addr), conformance.Auth("", "secret"))
}

// A server that asks for no password needs no handshake, and this driver makes none.
func TestConformanceOnServerWithoutPassword(t *testing.T) {
	server := servertest.Single(t)
	conformance.Test(t, conformance.Harness{
		Open:         customdriver.Driver{}.OpenConnector,
		Capabilities: allCapabilities,
	}, conformance.Server(server.Addr), conformance.Only("Connector", "Config", "Silent"))
}
