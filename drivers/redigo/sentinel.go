package redigo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

var errNotMaster = errors.New("the server is not a master")

// dialMaster asks the Sentinels in turn, beginning with the one that knew the master last
// time, and returns a connection to the first server they name that confirms to be the master. Each
// Sentinel has an equal part of the dial timeout, and the servers that they name have
// what is left. A server that hangs may use it up, so that the next dial begins behind the
// Sentinel that named it.
func (o *opener) dialMaster(ctx context.Context) (redis.Conn, error) {
	n := len(o.cfg.Addrs)
	first := int(o.sentinel.Load())
	var failures []error
	for i := range n {
		sentinel := (first + i) % n
		addr, err := o.askSentinel(ctx, o.cfg.Addrs[sentinel])
		if err == nil {
			o.sentinel.Store(int64((sentinel + 1) % n))
			var rc redis.Conn
			if rc, err = o.dialIfMaster(ctx, addr); err == nil {
				o.sentinel.Store(int64(sentinel))
				o.beginToListen()
				return rc, nil
			}
			err = fmt.Errorf("master %s: %w", addr, err)
		}
		failures = append(failures, fmt.Errorf("sentinel %s: %w", o.cfg.Addrs[sentinel], err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("no master %q: %w", o.cfg.Master, errors.Join(failures...))
}

// dialIfMaster returns a connection to the server that a Sentinel named, if that confirms to be the
// master. Then the connections to other servers end.
func (o *opener) dialIfMaster(ctx context.Context, addr string) (redis.Conn, error) {
	rc, err := o.dialServer(ctx, "tcp", addr, o.dialNamed)
	if err != nil {
		return nil, err
	}
	if err = askRole(ctx, rc); err == nil && !o.leaveFor(addr, true) {
		err = errFormer
	}
	if err != nil {
		_ = rc.Close()
		return nil, err
	}
	return rc, nil
}

// sentinelPart is the part of the dial timeout that each Sentinel has.
func (o *opener) sentinelPart() time.Duration {
	return o.cfg.DialTimeout / time.Duration(len(o.cfg.Addrs)+1)
}

func (o *opener) dialSentinel(ctx context.Context, addr string) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.sentinelPart())
	defer cancel()
	return o.connect(ctx, "tcp", addr, o.cfg.SentinelUsername, o.cfg.SentinelPassword, o.dialer.Dial)
}

// askSentinel returns the address of the master as one Sentinel knows it.
func (o *opener) askSentinel(ctx context.Context, addr string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, o.sentinelPart())
	defer cancel()
	rc, err := o.dialSentinel(ctx, addr)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	reply, err := redis.Strings(ask(ctx, rc, "SENTINEL", "get-master-addr-by-name", o.cfg.Master))
	switch {
	case errors.Is(err, redis.ErrNil):
		return "", errors.New("does not know the master's name")
	case err != nil:
		return "", err
	case len(reply) != 2:
		return "", fmt.Errorf("unexpected answer of %d parts", len(reply))
	}
	return net.JoinHostPort(reply[0], reply[1]), nil
}

// askRole returns nil if the server is a master, or does not tell: then READONLY
// will. A user who may not do ROLE may usually do INFO, which locks need besides.
func askRole(ctx context.Context, rc redis.Conn) error {
	reply, err := redis.Values(ask(ctx, rc, "ROLE"))
	switch {
	case driver.OutcomeOf(err) == driver.OutcomeReplied:
		return askInfo(ctx, rc)
	case err == nil && (len(reply) == 0 || reply[0] != "master"):
		return errNotMaster
	}
	return err
}

func askInfo(ctx context.Context, rc redis.Conn) error {
	info, err := redis.String(ask(ctx, rc, "INFO", "replication"))
	if driver.OutcomeOf(err) == driver.OutcomeReplied {
		return nil
	}
	for line := range strings.Lines(info) {
		if role, ok := strings.CutPrefix(line, "role:"); ok && strings.TrimSpace(role) != "master" {
			return errNotMaster
		}
	}
	return err
}
