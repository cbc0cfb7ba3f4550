package redigo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

const (
	// A connection idle for checkAfter is asked whether it still works before
	// a command is risked on it, and given checkTimeout to answer.
	checkAfter   = time.Second
	checkTimeout = time.Second
	// Idle connections are closed after idleTimeout.
	idleTimeout = 4 * time.Minute
	// With Sentinel a connection is not used after masterLifetime: a master
	// that was cut off takes itself for one, and only the Sentinels know better.
	masterLifetime = 10 * time.Second
	// The size of a pool is connsPerCPU times GOMAXPROCS if a Config does not
	// say: redigo itself would set no limit.
	connsPerCPU = 10
)

// An opener makes the connections of a pool that this driver opened.
type opener struct {
	cfg         driver.Config
	life        context.Context // ends with the Conn
	dialTimeout time.Duration
	timeout     time.Duration
	suspectAt   atomic.Pointer[time.Time]
	sentinel    atomic.Int64 // index of the Sentinel that answered last
}

func newOpener(cfg driver.Config, life context.Context) *opener {
	o := &opener{cfg: cfg, life: life, dialTimeout: cfg.DialTimeout, timeout: cfg.Timeout}
	if o.dialTimeout <= 0 {
		o.dialTimeout = driver.DefaultDialTimeout
	}
	if o.timeout <= 0 {
		o.timeout = driver.DefaultTimeout
	}
	return o
}

func (o *opener) newPool() *redis.Pool {
	size := o.cfg.PoolSize
	if size <= 0 {
		size = connsPerCPU * runtime.GOMAXPROCS(0)
	}
	pool := &redis.Pool{
		DialContext:         o.dial,
		TestOnBorrowContext: o.check,
		MaxActive:           size,
		MaxIdle:             size,
		IdleTimeout:         idleTimeout,
		Wait:                true,
	}
	if o.cfg.Mode == driver.ModeSentinel {
		pool.MaxConnLifetime = masterLifetime
	}
	// The first GetContext prepares the pool in a way that races with Close in
	// redigo 1.9.3. This one does nothing else.
	_, _ = pool.GetContext(expired)
	return pool
}

// dial returns a connection that is ready for commands, to the server or the
// present master. It is bounded by the dial timeout and ends with ctx and with
// the Conn, even if a Dial of the Config heeds no ctx.
func (o *opener) dial(ctx context.Context) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.dialTimeout)
	defer cancel()
	defer context.AfterFunc(o.life, cancel)()
	return detached(ctx, func(ctx context.Context) (redis.Conn, error) {
		if o.cfg.Mode == driver.ModeSentinel {
			return o.dialMaster(ctx)
		}
		network := o.cfg.Network
		if network == "" {
			network = "tcp"
		}
		return o.dialServer(ctx, network, o.cfg.Addrs[0])
	})
}

func (o *opener) dialServer(ctx context.Context, network, addr string) (redis.Conn, error) {
	greeting := auth(o.cfg.Username, o.cfg.Password)
	if o.cfg.DB != 0 {
		greeting = append(greeting, []string{"SELECT", strconv.Itoa(o.cfg.DB)})
	}
	return o.connect(ctx, network, addr, greeting)
}

func auth(username string, password driver.Secret) [][]string {
	switch {
	case username != "":
		return [][]string{{"AUTH", username, string(password)}}
	case password != "":
		return [][]string{{"AUTH", string(password)}}
	}
	return nil
}

// connect opens a network connection and sends the greeting and the client's
// name on it.
func (o *opener) connect(ctx context.Context, network, addr string, greeting [][]string) (redis.Conn, error) {
	dial := o.cfg.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	raw, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if o.cfg.TLS != nil {
		if raw, err = handshake(ctx, raw, addr, o.cfg.TLS); err != nil {
			return nil, fmt.Errorf("TLS handshake with %s: %w", addr, err)
		}
	}
	rc := redis.NewConn(raw, o.timeout, o.timeout)
	if o.cfg.ClientName != "" {
		greeting = append(greeting, []string{"CLIENT", "SETNAME", o.cfg.ClientName})
	}
	for _, cmd := range greeting {
		if _, err := redis.DoContext(rc, ctx, cmd[0], arguments(cmd)...); err != nil {
			_ = rc.Close()
			return nil, fmt.Errorf("%s at %s: %w", cmd[0], addr, answered(err))
		}
	}
	return rc, nil
}

// handshake closes raw if it fails.
func handshake(ctx context.Context, raw net.Conn, addr string, cfg *tls.Config) (net.Conn, error) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(addr)
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return tlsConn{conn}, nil
}

// A tlsConn closes without the alert that TLS sends first, which can block for
// five seconds when nobody reads.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) Close() error { return c.NetConn().Close() }

var errSuspect = errors.New("redigo: another connection broke after this one was last used")

// suspect makes the pool drop every connection that is idle now. A server that
// restarted or was demoted then costs one failed call, not one per connection.
func (o *opener) suspect() {
	now := time.Now()
	o.suspectAt.Store(&now)
}

// check decides whether an idle connection may be used again.
func (o *opener) check(ctx context.Context, rc redis.Conn, lastUsed time.Time) error {
	if at := o.suspectAt.Load(); at != nil && lastUsed.Before(*at) {
		return errSuspect
	}
	if time.Since(lastUsed) < checkAfter {
		return nil
	}
	question, cancel := context.WithTimeout(ctx, min(checkTimeout, o.timeout))
	defer cancel()
	defer context.AfterFunc(o.life, cancel)()
	var err error
	if o.cfg.Mode == driver.ModeSentinel {
		err = askRole(question, rc)
	} else {
		_, err = redis.DoContext(rc, question, "PING")
	}
	if _, alive := errors.AsType[redis.Error](err); alive {
		return nil
	}
	if ended(ctx) != nil {
		return nil // or the pool would close one connection after another; the call sees to it
	}
	if err != nil {
		o.suspect()
	}
	return err
}
