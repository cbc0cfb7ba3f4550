package redigo

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
	"github.com/golocker/golocker/locker/driver/netdial"
)

const (
	// Idle connections are closed after idleTimeout.
	idleTimeout = 4 * time.Minute
	// With Sentinel a connection is not used after masterLifetime: a master
	// that was cut off still believes to be one, and only the Sentinels know better.
	masterLifetime = 10 * time.Second
	// The size of a pool is connsPerCPU times GOMAXPROCS if a Config does not
	// say: redigo itself would set no limit.
	connsPerCPU = 10
)

// An opener makes the connections of a pool that this driver opened.
type opener struct {
	conn      *conn
	cfg       driver.Config
	dialer    *netdial.Dialer
	trusted   atomic.Pointer[time.Time] // connections that were last used before that are not used again
	masters   masters                   // with Sentinel
	sentinel  atomic.Int64              // index of the Sentinel that answered last
	listening atomic.Bool               // to a Sentinel, or its ACL forbids it
	listener  sync.WaitGroup            // of the goroutine that listens; begun with conn.mu held, and not after Close
	teller    atomic.Int64              // index of the Sentinel that it listens to, or dials
}

// openPool returns a conn with a pool of its own.
func openPool(cfg driver.Config) *conn {
	cfg = cfg.WithDefaults()
	o := &opener{cfg: cfg, dialer: netdial.New(cfg), masters: masters{dialers: map[string]*netdial.Dialer{}}}
	size := cmp.Or(cfg.PoolSize, connsPerCPU*runtime.GOMAXPROCS(0))
	pool := &redis.Pool{
		DialContext:         o.dial,
		TestOnBorrowContext: o.check,
		MaxIdle:             size,
		MaxActive:           size,
		Wait:                true,
		IdleTimeout:         idleTimeout,
	}
	if cfg.Mode == driver.ModeSentinel {
		pool.MaxConnLifetime = masterLifetime
	}
	o.conn = &conn{
		pool:     pool,
		dial:     o.dial,
		mode:     cfg.Mode,
		patience: cfg.DialTimeout + cfg.Timeout,
		silence:  cfg.Timeout,
		own:      true,
		distrust: o.distrust,
		// The pool is not closed: in redigo 1.9.3 that races with the calls that wait. Without connections
		// nothing is left of it: each of these calls has its turn, and finds that no connection can be made.
		close: func() {
			o.dialer.Close()
			o.leaveFor("", false)
			o.listener.Wait()
		},
	}
	return o.conn
}

// dial returns a connection that is ready for commands, to the server or the
// present master, within the dial timeout.
func (o *opener) dial(ctx context.Context) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.DialTimeout)
	defer cancel()
	var rc redis.Conn
	var err error
	if o.cfg.Mode == driver.ModeSentinel {
		rc, err = o.dialMaster(ctx)
	} else {
		rc, err = o.dialServer(ctx, o.cfg.Network, o.cfg.Addrs[0], o.dialer.Dial)
	}
	if err != nil && aside.Ended(ctx) != nil {
		err = fmt.Errorf("%w (%w)", os.ErrDeadlineExceeded, err)
	}
	return rc, err
}

func (o *opener) dialServer(ctx context.Context, network, addr string, dial driver.DialFunc) (redis.Conn, error) {
	return o.connect(ctx, network, addr, o.cfg.Username, o.cfg.Password, dial, redis.DialDatabase(o.cfg.DB))
}

// connect opens a connection and authenticates on it. As with other clients, a password may be given where
// the server asks for none: a user without a password, such as the default user, is let in with any,
// but from Redis 6 on only by name. Servers before that, and
// Sentinels before 6.2, accept no name, so that it is not given at first.
func (o *opener) connect(ctx context.Context, network, addr, username string, password driver.Secret, dial driver.DialFunc, more ...redis.DialOption) (redis.Conn, error) {
	if username != "" && password == "" {
		password = "any" // redigo sends no empty password, and a user who has none is let in with any
	}
	rc, err := redis.DialContext(ctx, network, addr, append(more,
		redis.DialContextFunc(dial),
		redis.DialUsername(username),
		redis.DialPassword(string(password)),
		redis.DialClientName(o.cfg.ClientName),
		redis.DialReadTimeout(o.cfg.Timeout),
		redis.DialWriteTimeout(o.cfg.Timeout),
	)...)
	err = o.dialer.Redact(answered(err))
	if err != nil && username == "" && strings.Contains(err.Error(), "AUTH <password> called without any password") {
		named, again := o.connect(ctx, network, addr, "default", password, dial, more...)
		if driver.OutcomeOf(again) != driver.OutcomeReplied {
			return named, again
		}
	}
	return rc, err
}

// ask is redis.DoContext with the values and errors of package driver.
func ask(ctx context.Context, rc redis.Conn, command ...string) (any, error) {
	reply, err := redis.DoContext(rc, ctx, command[0], appendArguments(nil, driver.Command{Args: command})...)
	return value(reply), answered(err)
}
