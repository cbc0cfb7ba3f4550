-- Takes the lock for ARGV.id if nobody is in the way, and else queues if told to.
local record, fence, queue = KEYS[1], KEYS[2], KEYS[3]
local id, mode, ttl, waits = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local held, blocked = false, false
local fields = redis.call('HGETALL', record)
for i = 1, #fields, 2 do
  local how, lapses = fields[i + 1]:match('^(%a):(%d+)$')
  if tonumber(lapses) <= now then
    redis.call('HDEL', record, fields[i])
  elseif fields[i] == id then
    return {1, redis.call('GET', fence) or '0'}
  else
    held = true
    blocked = blocked or how == 'w' or mode == 'w'
  end
end

local mine = nil
local arrivals = {}
local waiting = redis.call('HGETALL', queue)
for i = 1, #waiting, 2 do
  local arrival, lapses = waiting[i + 1]:match('^(%d+):(%d+)$')
  if waiting[i] == id then
    mine = tonumber(arrival)
  elseif tonumber(lapses) <= now then
    redis.call('HDEL', queue, waiting[i])
  else
    arrivals[#arrivals + 1] = tonumber(arrival)
  end
end
mine = mine or now
for _, arrival in ipairs(arrivals) do
  if arrival < mine then
    blocked = true
  end
end

if blocked then
  if waits then
    redis.call('HSET', queue, id, string.format('%.0f:%.0f', mine, now + 500000))
    redis.call('PEXPIRE', queue, 1000)
  end
  return {0, '0'}
end
redis.call('HDEL', queue, id)
redis.call('HSET', record, id, string.format('%s:%.0f', mode, now + ttl * 1000))
redis.call('PEXPIRE', record, math.max(ttl, redis.call('PTTL', record)))
if mode == 'w' then
  redis.call('INCR', fence)
  redis.call('PEXPIRE', fence, 60000)
end
return {1, redis.call('GET', fence) or '0'}
