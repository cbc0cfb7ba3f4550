-- Lengthens the hold ARGV.id, if it is there.
local record, id, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local hold = redis.call('HGET', record, id)
if not hold or tonumber(hold:sub(3)) <= now then
  return 0
end
redis.call('HSET', record, id, string.format('%s:%.0f', hold:sub(1, 1), now + ttl * 1000))
redis.call('PEXPIRE', record, math.max(ttl, redis.call('PTTL', record)))
return 1
