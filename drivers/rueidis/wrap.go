package rueidis

import (
	"context"
	"fmt"
	"reflect"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

// wrapLimit bounds a call through a wrapped client, whose own timeouts cannot be
// asked for. With the defaults of rueidis a dead connection is noticed after 12
// seconds.
const wrapLimit = 30 * time.Second

// Wrap returns a Connector around a client that the application has made and continues to own:
// closing what the Connector connects leaves c open. The package comment says which options c
// should have.
//
// Connect does no I/O. It fails, with an error that matches [driver.ErrUnsupported],
// if c is nil or has a ConnLifetime or Standalone.EnableRedirect.
func Wrap(c rue.Client) driver.Connector {
	return driver.NewConnector(Driver{}, func(context.Context) (driver.Conn, error) {
		if err := wrappable(c); err != nil {
			return nil, driver.NotSent(fmt.Errorf("rueidis: connect: %w", err))
		}
		return newConn(c, nil, wrapLimit), nil
	})
}

// wrappable returns why c cannot be wrapped.
func wrappable(c rue.Client) error {
	if v := reflect.ValueOf(c); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("Wrap was given a nil client (was the error of NewClient ignored?): %w", driver.ErrUnsupported)
	}
	if sendsTwice(c) {
		return fmt.Errorf("wrapping a client with ConnLifetime or Standalone.EnableRedirect, which sends commands twice "+
			"(make one without them for the locks): %w", driver.ErrUnsupported)
	}
	return nil
}

// isDecorated reports whether a client is not of rueidis' own making, such as one of rueidishook
// or rueidisotel. That may turn a reply into an error, wrapped in one of its own.
func isDecorated(client rue.Client) bool {
	return reflect.Indirect(reflect.ValueOf(client)).Type().PkgPath() != reflect.TypeFor[rue.RedisResult]().PkgPath()
}

// sendsTwice reports whether a client of rueidis' own making has an option by
// which it sends commands again whatever DisableRetry says: those that wait for
// their replies when a ConnLifetime is over, or a whole batch when the server
// answers one of its commands with REDIRECT. No method tells, so this looks at
// the fields that make rueidis do so.
func sendsTwice(client rue.Client) bool {
	set := func(c rue.Client, field string) bool {
		v := reflect.Indirect(reflect.ValueOf(c))
		if v.Kind() != reflect.Struct {
			return false
		}
		f := v.FieldByName(field)
		return f.Kind() == reflect.Bool && f.Bool()
	}
	for _, node := range client.Nodes() { // a client with replicas leaves it to those of its nodes
		if set(node, "hasLftm") {
			return true
		}
	}
	return set(client, "hasLftm") || set(client, "enableRedirect")
}
