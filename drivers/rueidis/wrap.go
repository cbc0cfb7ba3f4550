package rueidis

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

var _ driver.Connector = (*wrapper)(nil)

// wrapLimit bounds a call through a wrapped client, whose own timeouts cannot be
// asked for. With the defaults of rueidis a dead connection is noticed after 12
// seconds.
const wrapLimit = 30 * time.Second

// Wrap returns a Connector around a client that the application has made and
// goes on to own: closing what the Connector connects leaves c open. The
// package comment says which options c should have.
//
// Connect does no I/O. It fails if c is nil, and with an error that matches
// [driver.ErrUnsupported] if c has a ConnLifetime.
func Wrap(c rue.Client) driver.Connector { return &wrapper{client: c} }

type wrapper struct{ client rue.Client }

func (w *wrapper) Driver() driver.Driver { return Driver{} }

func (w *wrapper) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(fmt.Errorf("rueidis: connect: %w", err))
	}
	if v := reflect.ValueOf(w.client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, driver.NotSent(errors.New("rueidis: Wrap was given a nil client (was the error of NewClient ignored?)"))
	}
	if hasLifetime(w.client) {
		return nil, driver.NotSent(fmt.Errorf("rueidis: wrapping a client with ConnLifetime, which sends commands twice "+
			"(make one without it for the locks): %w", driver.ErrUnsupported))
	}
	c := newConn(w.client, nil, wrapLimit)
	c.oneByOne = mayRedirect(w.client)
	return c, nil
}

// hasLifetime reports whether a client of rueidis' own making has a ConnLifetime.
// When that is over, commands that wait for their replies are sent again, whatever
// DisableRetry says. No method tells, so this looks at the field that makes
// rueidis do so.
func hasLifetime(client rue.Client) bool {
	clients := map[string]rue.Client{"": client}
	if mayRedirect(client) {
		clients = client.Nodes()
	}
	for _, c := range clients {
		v := reflect.Indirect(reflect.ValueOf(c))
		if v.Kind() != reflect.Struct {
			continue
		}
		if f := v.FieldByName("hasLftm"); f.Kind() == reflect.Bool && f.Bool() {
			return true
		}
	}
	return false
}

// mayRedirect reports whether the client may have the option
// Standalone.EnableRedirect, by which one REDIRECT makes it send a whole batch
// again, what was executed included. The clients that surely have it not are
// their own only node, or have a mode of their own.
func mayRedirect(client rue.Client) bool {
	if client.Mode() != rue.ClientModeStandalone {
		return false
	}
	for _, node := range client.Nodes() {
		if reflect.TypeOf(node).Comparable() && node == client {
			return false
		}
	}
	return true
}
