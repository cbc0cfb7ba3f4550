package rueidis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A dialer opens all connections of one client and can end them, whatever the
// client is waiting for: rueidis has no ctx when it connects, and closes
// politely.
type dialer struct {
	cfg *driver.Config
	ctx context.Context
	end context.CancelFunc // of every connection and every dial
}

func newDialer(cfg *driver.Config) *dialer {
	d := &dialer{cfg: cfg}
	d.ctx, d.end = context.WithCancel(context.Background())
	return d
}

// A dialError proves that a command never left the process: rueidis gives it to
// commands that had no connection, and to no others.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// dial is a [rueidis.ClientOption.DialCtxFn]. What rueidis passes on of its
// options is in cfg too.
func (d *dialer) dial(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.dialTimeout())
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := d.open(ctx, addr)
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

func (d *dialer) open(ctx context.Context, addr string) (net.Conn, error) {
	dial := d.cfg.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	raw, err := dial(ctx, d.cfg.Network, addr)
	if err != nil {
		return nil, err
	}
	conn := &dialed{raw, context.AfterFunc(d.ctx, func() { _ = raw.Close() })}
	if d.cfg.TLS == nil {
		return conn, nil
	}
	config := d.cfg.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// dialed is a connection that its dialer closes if nobody else has before.
type dialed struct {
	net.Conn
	forget func() bool
}

func (c *dialed) Close() error {
	c.forget()
	return c.Conn.Close()
}

func (d *dialer) dialTimeout() time.Duration {
	return cmp.Or(d.cfg.DialTimeout, driver.DefaultDialTimeout)
}

func (d *dialer) timeout() time.Duration { return cmp.Or(d.cfg.Timeout, driver.DefaultTimeout) }

// limit bounds a call, whatever it waits for. It is a last resort: a connection
// that is silent for too long ends its calls much earlier, and one that is slow,
// with many calls in its pipeline, is not dead.
func (d *dialer) limit() time.Duration { return 4 * (d.dialTimeout() + d.timeout()) }

// redact returns err without passwords. Servers that do not know AUTH or HELLO
// quote its arguments.
func (d *dialer) redact(err error) error {
	text := err.Error()
	for _, secret := range []driver.Secret{d.cfg.Password, d.cfg.SentinelPassword} {
		if secret != "" {
			text = strings.ReplaceAll(text, string(secret), secret.String())
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
