package rueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"testing"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/netdial"
)

var capabilities = conformance.Capabilities{Batcher: true, Subscriber: true, Listener: true, Describer: true}

// pipelined are the cases that ask for a second connection when a reply is held
// back on the first one.
var pipelined = []conformance.Deviation{{
	Case: "Do/Concurrent/HeldReply",
	Link: "https://github.com/redis/rueidis#auto-pipelining",
	Why:  "all commands share one connection, so none is answered before those that were sent earlier",
}}

// onMiniredis are deviations of miniredis.
var onMiniredis = slices.Concat(pipelined, []conformance.Deviation{{
	Case: "Config/ClientName",
	Link: "https://github.com/alicebob/miniredis/blob/v2.40.0/cmd_connection.go#L145",
	Why:  "miniredis takes HELLO … SETNAME and forgets the name",
}})

func TestConformance(t *testing.T) {
	conformance.Test(t, conformance.Harness{
		Open:         rueidis.Driver{}.OpenConnector,
		Capabilities: capabilities,
		Known:        onMiniredis,
	})
}

// An application's client has the options of its application, which the driver
// does not know. Here they are rueidis' own, down to its retries.
func TestConformanceWrapped(t *testing.T) {
	conformance.Test(t, conformance.Harness{
		Open:         openWrapped,
		Capabilities: capabilities,
		Known:        slices.Concat(onMiniredis, staying),
	})
}

// staying are the cases that ask for another connection than the one to a former master, which
// a wrapped client keeps.
var staying = []conformance.Deviation{
	{Case: "Do/Recover/ReadOnly", Link: formerMaster, Why: "the connections of a wrapped client are the application's"},
	{Case: "Do/Recover/ReadOnly/Script", Link: formerMaster, Why: "the connections of a wrapped client are the application's"},
	{Case: "Batch/Recover/ReadOnly", Link: formerMaster, Why: "the connections of a wrapped client are the application's"},
	{Case: "Batch/Recover/ReadOnly/Script", Link: formerMaster, Why: "the connections of a wrapped client are the application's"},
}

const formerMaster = "https://pkg.go.dev/github.com/golocker/golocker/drivers/rueidis#hdr-A_name_that_leads_to_the_master"

// openWrapped makes connectors that play the application too: they make the
// client that is wrapped, and close it after the Conn.
func openWrapped(cfg driver.Config) (driver.Connector, error) {
	if cfg.TLS != nil || cfg.Network == "unix" {
		return nil, driver.ErrUnsupported
	}
	cfg = cfg.WithDefaults()
	return driver.NewConnector(rueidis.Driver{}, application{&cfg}.connect), nil
}

type application struct{ cfg *driver.Config }

func (a application) connect(ctx context.Context) (driver.Conn, error) {
	made := make(chan driver.Conn, 1)
	failed := make(chan error, 1)
	opened := netdial.New(*a.cfg)
	go func() {
		client, err := rue.NewClient(a.options(opened))
		if err != nil {
			if client != nil {
				client.Close()
			}
			failed <- err
			return
		}
		conn, err := rueidis.Wrap(client).Connect(context.WithoutCancel(ctx))
		if err != nil {
			failed <- err
			return
		}
		made <- clientConn{conn.(fullConn), client, opened}
	}()
	select {
	case conn := <-made:
		return conn, nil
	case err := <-failed:
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // rueidis' own, for its handshake
			err = errors.New("no connection in time")
		}
		return nil, driver.NotSent(err)
	case <-ctx.Done():
		go func() {
			select {
			case conn := <-made:
				_ = conn.Close()
			case <-failed:
			}
		}()
		return nil, driver.NotSent(ctx.Err())
	}
}

func (a application) options(opened *netdial.Dialer) rue.ClientOption {
	return rue.ClientOption{
		InitAddress:       a.cfg.Addrs,
		Username:          a.cfg.Username,
		Password:          string(a.cfg.Password),
		SelectDB:          a.cfg.DB,
		ClientName:        a.cfg.ClientName,
		ConnWriteTimeout:  a.cfg.Timeout,
		Dialer:            net.Dialer{Timeout: a.cfg.DialTimeout},
		DisableCache:      true, // miniredis has none
		ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return opened.Dial(ctx, "tcp", addr)
		},
	}
}

type fullConn interface {
	driver.Conn
	driver.Batcher
	driver.Subscriber
	driver.Describer
}

type clientConn struct {
	fullConn
	client rue.Client
	opened *netdial.Dialer
}

// Close leaves no connection open. rueidis does where it is closed while it connects: what comes
// of that takes the place of the connections that are not used any more.
func (c clientConn) Close() error {
	err := c.fullConn.Close()
	go func() {
		c.client.Close() // against a server that hangs it takes a second
		c.opened.Close()
	}()
	return err
}
