package contestants

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/golocker/golocker/bench/harness"
)

// The physical floor: hand-encoded RESP over bare sockets, connections kept in a
// free list. No library can do a two-command lock for less client work.
func init() {
	Register(Spec{
		Name: "ping/tcp", Kind: Ping, Uses: UseFree,
		Note: "PING over a bare socket",
		New: func(o Options) (Locker, error) {
			return &tcpPing{newTCPPool(o.Addrs[0])}, nil
		},
	})
	Register(Spec{
		Name: "floor/tcp", Kind: Floor, Uses: UseFree,
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
	Register(Spec{
		Name: "floor/blpop", Kind: Floor, Uses: UseWait,
		Note: "server-side queue: BLPOP a token, LPUSH it back; UNSAFE (no lease: a crash loses the lock), shows the hand-off floor",
		New: func(o Options) (Locker, error) {
			return &blpop{tcpPool: newTCPPool(o.Addrs[0])}, nil
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
	var re harness.Error
	if err == nil || errors.Is(err, harness.ErrNil) || errors.As(err, &re) {
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

func noop() error { return nil }

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

// blpop keeps one token in a list: whoever pops it holds the lock. Redis serves
// blocked clients first come, first served, inside the LPUSH of the releaser.
type blpop struct {
	*tcpPool
	made sync.Map // keys whose token this locker has seen to
}

func (l *blpop) Lock(ctx context.Context, key string) (Unlock, error) {
	c, err := l.get()
	if err != nil {
		return nil, err
	}
	// The first user of the key, anywhere, puts the token there.
	if _, ok := l.made.LoadOrStore(key, true); !ok {
		if v, err := c.Do("SETNX", key+":made", "1"); err != nil {
			return nil, err
		} else if v == int64(1) {
			if _, err := c.Do("LPUSH", key, "token"); err != nil {
				return nil, err
			}
		}
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	_, err = c.Do("BLPOP", key, "0")
	if !stop() || err != nil {
		l.drop(c) // may have a reply in flight
		if err == nil {
			// The token arrived although the caller left: hand it on.
			l.do("LPUSH", key, "token")
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return func() error {
		_, err := c.Do("LPUSH", key, "token")
		l.put(c)
		return err
	}, nil
}
