package contestants

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// quiet is a logger for go-redis, which otherwise prints every dial that fails: with
// a dead server that would drown everything else, and cost it time.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() {
	redis.SetLogger(quiet{})
	Register(Spec{
		Name: "ping/goredis", Client: Goredis, Uses: UsePing,
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
		Name: "floor/goredis", Client: Goredis, Uses: UseFree | UseHeld,
		Note: "hand-written SetNX + Script.Run on go-redis, default options (pool of 10 per CPU)",
		New:  plain(time.Millisecond),
	})
	Register(Spec{
		Name: "floor/goredis-poll10ms", Client: Goredis, Uses: UseWait,
		Note: "the same, polling every 10 ms", New: plain(10 * time.Millisecond),
	})
	Register(Spec{
		Name: "floor/goredis-poll1ms", Client: Goredis, Uses: UseWait,
		Note: "the same, polling every 1 ms", New: plain(time.Millisecond),
	})
	Register(Spec{
		Name: "floor/goredis-autopipe", Client: Goredis, Uses: UseFree | UseHeld,
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

// goredisCmds is what the lock needs of a client. *redis.Client has it, and so has
// *redis.AutoPipeliner.
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
