-- KEYS record, queue
-- on a node of a quorum also KEYS marker and ARGV 1 the longest lease (ms)
-- reply {what, record as GET or HGETALL gives it, or "", pttl, server's ms, waiters} · {-5, ms,
--      that} the node may have forgotten a lease
local kind = redis.call('TYPE', KEYS[1]).ok
local value = ''
if kind == 'string' then
  value = string.sub(redis.call('GET', KEYS[1]), 1, 8192) -- longer than any record of ours
elseif kind ~= 'none' and kind_at(KEYS[1]) ~= kind then
  value = redis.call('HGETALL', KEYS[1])
end
local waiters = redis.pcall('ZCARD', KEYS[2])
if wrong_type(waiters) then
  waiters = 0 -- Nobody waits where others have written to the queue's key.
elseif failed(waiters) then
  return waiters
end
return unless_young({kind, value, redis.call('PTTL', KEYS[1]), digits(now_us() / 1000), waiters}, KEYS[3], ARGV[1])
