package contestants

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// go-redis logs every failed dial to stderr; the faults of scenario 6 would
// drown everything else, and printing would cost it time.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() {
	redis.SetLogger(quiet{})
	Register(Spec{
		Name: "ping/goredis", Kind: Ping, Uses: UseFree,
		Note: "PING through go-redis, default options",
		New: func(o Options) (Locker, error) {
			return &goredisPing{redis.NewClient(&redis.Options{Addr: o.Addrs[0]})}, nil
		},
	})
	plain := func(interval time.Duration) func(Options) (Locker, error) {
		return func(o Options) (Locker, error) {
			c := redis.NewClient(&redis.Options{Addr: o.Addrs[0]})
			return &goredisLock{cmd: c, close: c.Close, o: o, every: interval}, nil
		}
	}
	Register(Spec{
		Name: "floor/goredis", Kind: Floor, Uses: UseFree | UseHeld,
		Note: "hand-written SetNX + Script.Run on go-redis, default options (pool of 10 per CPU)",
		New:  plain(time.Millisecond),
	})
	Register(Spec{
		Name: "floor/goredis-poll10ms", Kind: Floor, Uses: UseWait,
		Note: "the same, polling every 10 ms", New: plain(10 * time.Millisecond),
	})
	Register(Spec{
		Name: "floor/goredis-poll1ms", Kind: Floor, Uses: UseWait,
		Note: "the same, polling every 1 ms", New: plain(time.Millisecond),
	})
	Register(Spec{
		Name: "floor/goredis-autopipe", Kind: Floor, Uses: UseFree | UseHeld,
		Note: "the same through go-redis' blocking AutoPipeline (batches concurrent callers)",
		New: func(o Options) (Locker, error) {
			c := redis.NewClient(&redis.Options{Addr: o.Addrs[0]})
			ap, err := c.AutoPipeline()
			if err != nil {
				return nil, err
			}
			return &goredisLock{cmd: ap, close: c.Close, o: o, every: time.Millisecond}, nil
		},
	})
}

type goredisPing struct{ c *redis.Client }

func (l *goredisPing) Lock(ctx context.Context, _ string) (Unlock, error) {
	return noop, l.c.Ping(ctx).Err()
}
func (l *goredisPing) Close() error { return l.c.Close() }

var (
	grRelease = redis.NewScript(releaseScript)
	grExtend  = redis.NewScript(extendScript)
)

// goredisCmds is the part of the client the floor needs; *redis.Client and
// *redis.AutoPipeliner both have it.
type goredisCmds interface {
	redis.Scripter
	SetNX(ctx context.Context, key string, value any, ttl time.Duration) *redis.BoolCmd
}

type goredisLock struct {
	cmd   goredisCmds
	close func() error
	o     Options
	every time.Duration
}

func (l *goredisLock) Lock(ctx context.Context, key string) (Unlock, error) {
	token := newToken()
	err := poll(ctx, l.every, func() (bool, error) {
		return l.cmd.SetNX(ctx, key, token, l.o.TTL).Result()
	})
	if err != nil {
		return nil, err
	}
	stop := keepAlive(l.o, func(ctx context.Context) (bool, error) {
		n, err := grExtend.Run(ctx, l.cmd, []string{key}, token, l.o.TTL.Milliseconds()).Int()
		return n == 1, err
	})
	return func() error {
		stop()
		n, err := grRelease.Run(context.Background(), l.cmd, []string{key}, token).Int()
		if err == nil && n != 1 {
			err = errNotHeld
		}
		return err
	}, nil
}

func (l *goredisLock) Close() error { return l.close() }

// ---- hand-written Redlock: ask all nodes at once, go on at the third yes ----

const perNodeTimeout = 50 * time.Millisecond

func init() {
	Register(Spec{
		Name: "floor/redlock-goredis", Kind: Floor, Uses: UseQuorum,
		Note: "hand-written Redlock: all nodes in parallel, return at the quorum, 50 ms per node, no client retries",
		New: func(o Options) (Locker, error) {
			l := &floorRedlock{o: o}
			for _, a := range o.Addrs {
				l.nodes = append(l.nodes, redis.NewClient(quickOptions(a)))
			}
			return l, nil
		},
	})
}

// quickOptions are go-redis settings under which a dead node costs little:
// context deadlines are obeyed (they are not by default) and nothing is retried.
func quickOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr:                  addr,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialTimeout:           200 * time.Millisecond,
		DialerRetries:         1,
	}
}

type floorRedlock struct {
	nodes []*redis.Client
	o     Options
}

// quorum runs f on all nodes and returns as soon as the outcome is known;
// stragglers finish in the background.
func (l *floorRedlock) quorum(f func(context.Context, *redis.Client) (bool, error)) (int, error) {
	type res struct {
		ok  bool
		err error
	}
	ch := make(chan res, len(l.nodes))
	for _, n := range l.nodes {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), perNodeTimeout)
			defer cancel()
			ok, err := f(ctx, n)
			ch <- res{ok, err}
		}()
	}
	need := len(l.nodes)/2 + 1
	yes, no := 0, 0
	var err error
	for range l.nodes {
		r := <-ch
		if r.ok {
			yes++
		} else {
			no++
			err = errors.Join(err, r.err)
		}
		if yes >= need || no > len(l.nodes)-need {
			break
		}
	}
	if yes >= need {
		err = nil
	}
	return yes, err
}

func (l *floorRedlock) Lock(ctx context.Context, key string) (Unlock, error) {
	token := newToken()
	need := len(l.nodes)/2 + 1
	release := func() (int, error) {
		return l.quorum(func(ctx context.Context, c *redis.Client) (bool, error) {
			n, err := grRelease.Run(ctx, c, []string{key}, token).Int()
			return n == 1, err
		})
	}
	err := poll(ctx, time.Millisecond, func() (bool, error) {
		n, err := l.quorum(func(ctx context.Context, c *redis.Client) (bool, error) {
			return c.SetNX(ctx, key, token, l.o.TTL).Result()
		})
		if n >= need {
			return true, nil
		}
		release()
		return false, err
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		n, err := release()
		if n < need && err == nil {
			err = errNotHeld
		}
		return err
	}, nil
}

func (l *floorRedlock) Close() error {
	for _, n := range l.nodes {
		n.Close()
	}
	return nil
}
