// Package netdial opens network connections as a [driver.Config] says: through its
// Dial function, within its timeout, with its TLS. It is written for the author of a
// driver whose client takes a dial function.
package netdial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// A Dialer opens the connections of one [driver.Conn] and ends them with it,
// whatever the client is waiting for.
type Dialer struct {
	config func() driver.Config // a function, so that no way of printing shows a password
	ctx    context.Context
	end    context.CancelFunc
}

// An Error is the error of a connection that could not be opened. It proves that
// no command was sent on it.
type Error struct {
	Addr string // "host:port" or the path of a socket
	Err  error  // why
}

func (e *Error) Error() string { return "dial " + e.Addr + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// New returns a Dialer for cfg, with [driver.Config.WithDefaults].
func New(cfg driver.Config) *Dialer {
	cfg = cfg.WithDefaults()
	d := &Dialer{config: func() driver.Config { return cfg }}
	d.ctx, d.end = context.WithCancel(context.Background())
	return d
}

// Dial opens a connection. It takes the Config's DialTimeout at most, TLS handshake
// included, and returns promptly when ctx ends or the Dialer is closed, even if the
// Config's Dial function does not. Its errors are *Error. One that is due to the
// timeout matches context.DeadlineExceeded only if ctx has ended.
func (d *Dialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	cfg := d.config()
	if err := d.over(ctx); err != nil {
		return nil, &Error{addr, err}
	}
	bounded, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	var handshake atomic.Bool
	conn, err := aside.Open(bounded, nil, func() (net.Conn, error) {
		return d.open(bounded, cfg, network, addr, &handshake)
	}, func(late net.Conn) { _ = late.Close() })
	if over := d.over(ctx); over != nil {
		if err == nil {
			_ = conn.Close()
		}
		if handshake.Load() && errors.Is(over, context.DeadlineExceeded) {
			over = fmt.Errorf("%s: %w", unanswered, over)
		}
		return nil, &Error{addr, over}
	}
	switch {
	case err == nil:
		return conn, nil
	case bounded.Err() != nil && handshake.Load():
		err = fmt.Errorf("no connection within %v: %s", cfg.DialTimeout, unanswered)
	case bounded.Err() != nil:
		err = fmt.Errorf("no connection within %v", cfg.DialTimeout)
	}
	return nil, &Error{addr, err}
}

// unanswered explains a timeout: a server without TLS does not answer what it does not
// understand, but waits for more, such as the end of a line.
const unanswered = "no answer to the TLS handshake (does the server speak TLS?)"

// over returns why nobody wants a connection any more.
func (d *Dialer) over(ctx context.Context) error {
	if d.ctx.Err() != nil {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// open opens a connection. handshake is true from the beginning of a TLS handshake to its success.
func (d *Dialer) open(ctx context.Context, cfg driver.Config, network, addr string, handshake *atomic.Bool) (net.Conn, error) {
	dial := cfg.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	raw, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn := &tracked{raw, context.AfterFunc(d.ctx, func() { _ = raw.Close() })}
	if cfg.TLS == nil {
		return conn.withSyscalls(), nil
	}
	config := cfg.TLS
	if config.ServerName == "" {
		config = config.Clone()
		host, _, _ := net.SplitHostPort(addr)            // "" for a unix socket
		config.ServerName, _, _ = strings.Cut(host, "%") // certificates have addresses without zones
	}
	secure := tls.Client(conn.withSyscalls(), config)
	handshake.Store(true)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	handshake.Store(false)
	return abrupt{secure}, nil
}

// Close ends every dial and every connection.
func (d *Dialer) Close() { d.end() }

// Redact returns err, the error of a connection that failed, without the Config's passwords: a
// client may quote what it could not read. Where there is something to hide, nothing but the
// text of err remains. An err with a [driver.ServerError] stays as it is, since a ServerError
// itself hides what a server quotes. A nil Dialer, for a client that is the application's,
// knows no password.
func (d *Dialer) Redact(err error) error {
	if _, replied := errors.AsType[*driver.ServerError](err); replied || err == nil || d == nil {
		return err
	}
	cfg, text := d.config(), err.Error()
	for _, secret := range []driver.Secret{cfg.Password, cfg.SentinelPassword} {
		if secret != "" {
			text = strings.ReplaceAll(text, string(secret), secret.String())
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// tracked is a connection that its Dialer closes if nobody else has before.
type tracked struct {
	net.Conn
	forget func() bool
}

func (c *tracked) Close() error {
	c.forget()
	return c.Conn.Close()
}

// withSyscalls lets a client look, before it sends anything, whether the server has closed the
// connection, provided that c.Conn allows it.
func (c *tracked) withSyscalls() net.Conn {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return c
	}
	return &struct {
		*tracked
		syscall.Conn
	}{c, raw}
}

// abrupt closes without the alert that TLS sends first, which can block for five
// seconds when nobody reads.
type abrupt struct{ *tls.Conn }

func (c abrupt) Close() error { return c.NetConn().Close() }
