-- KEYS record, queue
-- reply {what, record as GET or HGETALL gives it, or "", pttl, server's ms, waiters}
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then
  value = string.sub(redis.call('GET', KEYS[1]), 1, 8192) -- longer than any record of ours
elseif kind ~= 'none' and kind_at(KEYS[1]) ~= kind then
  value = redis.call('HGETALL', KEYS[1])
end
return {kind, value, redis.call('PTTL', KEYS[1]), digits(now_us() / 1000), redis.call('ZCARD', KEYS[2])}
