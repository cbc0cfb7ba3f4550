package round

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/servertest"
)

// sampleInterval is how often each server's keys are looked at.
const sampleInterval = 400 * time.Millisecond

// litter begins the names of keys that are not of a lock but of a fault.
const litter = "nemesis:"

// immortals returns how many keys a server has and which of them have no TTL, at one
// instant.
var immortals = redis.NewScript(`
local cursor, n, immortal = '0', 0, {}
repeat
  local page = redis.call('SCAN', cursor, 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    n = n + 1
    if redis.call('PTTL', key) == -1 then immortal[#immortal + 1] = key end
  end
until cursor == '0'
return {n, immortal}`)

// sample looks at the keys of all servers again and again until ctx ends, as far as they
// answer.
func sample(ctx context.Context, servers []*servertest.Server, log *history.Log) {
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() { sampleOne(ctx, s, log) })
	}
	all.Wait()
}

func sampleOne(ctx context.Context, s *servertest.Server, log *history.Log) {
	client := redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.Socket, Username: servertest.ControlUser, Password: "any",
		MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: 1,
	})
	defer client.Close()
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if e, ok := look(ctx, client); ok {
			_ = log.Add(e)
		}
	}
}

func look(ctx context.Context, client *redis.Client) (history.Event, bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	e := history.Event{Since: history.Now(), What: history.Sampled}
	reply, err := immortals.Eval(ctx, client, nil).Slice()
	if err != nil || len(reply) != 2 {
		return e, false // the server is under a fault
	}
	e.At = history.Now()
	n, _ := reply[0].(int64)
	e.Keys = int(n)
	keys, _ := reply[1].([]any)
	for _, key := range keys {
		if key, ok := key.(string); ok && !strings.HasPrefix(key, litter) {
			e.Immortal = append(e.Immortal, key)
		}
	}
	return e, true
}
