-- Ends the hold ARGV.id, if it is there, or the waiting for it.
local record, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local id, token = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('HDEL', queue, id)
local hold = redis.call('HGET', record, id)
if not hold or tonumber(hold:sub(3)) <= now then
  return 0
end
redis.call('HDEL', record, id)
return 1
