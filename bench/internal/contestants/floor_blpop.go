package contestants

import (
	"context"
	"sync"
	"time"
)

func init() {
	Register(Spec{
		Name: "floor/blpop", Uses: UseWait,
		Note: "server-side queue: BLPOP a token, LPUSH it back; UNSAFE (no lease: a crash loses the lock), shows the hand-off floor",
		New: func(o Options) (Locker, error) {
			return &blpop{tcpPool: newTCPPool(o.Addrs[0])}, nil
		},
	})
}

// blpop keeps a token in a list, and whoever pops it holds the lock. Redis serves
// blocked clients in the order of arrival, inside the LPUSH of the releaser: nothing
// hands over faster. Nothing else makes it a lock, it is lost with its holder.
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
