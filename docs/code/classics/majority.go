package classics

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// TakeMajority takes a lock on most of some servers, for what is left of its TTL then:
// Redlock, as it was published.
func TakeMajority(ctx context.Context, servers []*redis.Client, key, token string, ttl time.Duration) (until time.Time, ok bool) {
	begun, votes := time.Now(), 0
	for _, rdb := range servers {
		if ok, err := rdb.SetNX(ctx, key, token, ttl).Result(); err == nil && ok {
			votes++
		}
	}
	until = begun.Add(ttl - ttl/100)
	return until, votes > len(servers)/2 && time.Now().Before(until)
}
