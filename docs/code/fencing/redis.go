package fencing

import (
	"context"
	"errors"

	"github.com/golocker/golocker/locker"
	"github.com/redis/go-redis/v9"
)

// write sets fields of a hash, which keeps the token, too: so both are lost together or
// not at all. (A number of Lua is exact up to 2^53, which no token exceeds.)
var write = redis.NewScript(`
if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', unpack(ARGV))
return 1`)

// SetFields sets fields of a hash that is guarded by a lock; pairs are names and values.
func SetFields(ctx context.Context, rdb redis.Scripter, key string, token locker.Token, pairs ...string) error {
	if token == 0 {
		return ErrUnfenced
	}
	args := []any{uint64(token)}
	for _, s := range pairs {
		args = append(args, s)
	}
	written, err := write.Run(ctx, rdb, []string{key}, args...).Int()
	if err == nil && written == 0 {
		err = ErrOutdated
	}
	return err
}

// admit shows a token before anything is read, so that nobody with a smaller one writes
// any more.
var admit = redis.NewScript(`
if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then
  return false
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return redis.call('HGETALL', KEYS[1])`)

// Fields reads a hash of [SetFields] in order to change it.
func Fields(ctx context.Context, rdb redis.Scripter, key string, token locker.Token) (map[string]string, error) {
	if token == 0 {
		return nil, ErrUnfenced
	}
	list, err := admit.Run(ctx, rdb, []string{key}, uint64(token)).StringSlice()
	if errors.Is(err, redis.Nil) {
		return nil, ErrOutdated
	}
	fields := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		fields[list[i]] = list[i+1]
	}
	return fields, err
}
