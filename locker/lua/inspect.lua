-- KEYS record, queue
-- reply {type, value or "", pttl, waiters}
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then
  value = redis.call('GET', KEYS[1])
end
return {kind, value, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2])}
