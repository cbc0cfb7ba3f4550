package contestants

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// perNodeTimeout is how long the hand-written Redlock waits for a server.
const perNodeTimeout = 50 * time.Millisecond

func init() {
	Register(Spec{
		Name: "floor/redlock-goredis", Client: Goredis, Uses: UseQuorum,
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

// quickOptions make a dead server cost little: go-redis then obeys the deadlines of
// contexts, which it does not by default, and retries nothing.
func quickOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr:                  addr,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialTimeout:           200 * time.Millisecond,
		DialerRetries:         1,
	}
}

// floorRedlock asks all servers at once and goes on when the outcome is known.
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
