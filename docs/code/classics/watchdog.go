package classics

import (
	"context"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
)

// KeepAlive renews a lock every third of its TTL until ctx ends. It does not look whose
// lock it is, and tells nobody when it fails.
func KeepAlive(ctx context.Context, rdb *redis.Client, key string, ttl time.Duration) {
	ticker := time.NewTicker(ttl / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := rdb.PExpire(ctx, key, ttl).Err(); err != nil {
				log.Printf("%s was not renewed: %v", key, err)
			}
		}
	}
}
