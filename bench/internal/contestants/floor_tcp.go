package contestants

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/golocker/golocker/bench/internal/harness"
)

// The floor of everything: commands encoded by hand over bare sockets that are kept
// in a free list. No library can lock with two commands for less.
func init() {
	Register(Spec{
		Name: "ping/tcp", Uses: UsePing,
		Note: "PING over a bare socket",
		New: func(o Options) (Locker, error) {
			return &tcpPing{newTCPPool(o.Addrs[0])}, nil
		},
	})
	Register(Spec{
		Name: "floor/tcp", Uses: UseFree,
		Note: "SET NX PX + EVALSHA compare-and-delete over bare sockets, free list of connections",
		New: func(o Options) (Locker, error) {
			p := newTCPPool(o.Addrs[0])
			c, err := p.get()
			if err != nil {
				return nil, err
			}
			sha, err := c.Do("SCRIPT", "LOAD", releaseScript)
			if err != nil {
				return nil, err
			}
			p.put(c)
			return &tcpLock{p, sha.(string), strconv.FormatInt(o.TTL.Milliseconds(), 10)}, nil
		},
	})
}

// tcpPool is an unbounded LIFO free list.
type tcpPool struct {
	addr string
	mu   sync.Mutex
	free []*harness.Conn
	all  map[*harness.Conn]bool
}

func newTCPPool(addr string) *tcpPool {
	return &tcpPool{addr: addr, all: map[*harness.Conn]bool{}}
}

func (p *tcpPool) get() (*harness.Conn, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := harness.Dial(p.addr)
	if err == nil {
		p.mu.Lock()
		p.all[c] = true
		p.mu.Unlock()
	}
	return c, err
}

func (p *tcpPool) put(c *harness.Conn) {
	p.mu.Lock()
	p.free = append(p.free, c)
	p.mu.Unlock()
}

func (p *tcpPool) drop(c *harness.Conn) {
	c.Close()
	p.mu.Lock()
	delete(p.all, c)
	p.mu.Unlock()
}

func (p *tcpPool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.all {
		c.Close()
	}
	return nil
}

func (p *tcpPool) do(args ...string) (any, error) {
	c, err := p.get()
	if err != nil {
		return nil, err
	}
	v, err := c.Do(args...)
	if _, refused := errors.AsType[harness.ReplyError](err); err == nil || refused || errors.Is(err, harness.ErrNil) {
		p.put(c)
	} else {
		p.drop(c)
	}
	return v, err
}

type tcpPing struct{ *tcpPool }

func (l *tcpPing) Lock(context.Context, string) (Unlock, error) {
	_, err := l.do("PING")
	return noop, err
}

type tcpLock struct {
	*tcpPool
	sha, ttl string
}

func (l *tcpLock) Lock(ctx context.Context, key string) (Unlock, error) {
	token := newToken()
	err := poll(ctx, time.Millisecond, func() (bool, error) {
		_, err := l.do("SET", key, token, "NX", "PX", l.ttl)
		if errors.Is(err, harness.ErrNil) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		v, err := l.do("EVALSHA", l.sha, "1", key, token)
		if err == nil && v != int64(1) {
			err = errNotHeld
		}
		return err
	}, nil
}
