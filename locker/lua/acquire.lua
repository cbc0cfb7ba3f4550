-- Takes the lock if it is free, or takes its place in the queue of waiters.
-- Asked again under the same id it answers "yours" and arms the lease again.
--
-- KEYS record, fence, queue, entries, void
-- ARGV 1 id, 2 "<label>|<metadata>", 3 ttl ms, 4 fenced 0|1, 5 retention ms of the
--      fence, 6 reservation or "", 7 channel, 8 reservation ms
-- reply {1, token} held · {0, pttl, record} held by another · {-1} this id was
--      given up · {-2, type} not a string · {-3} a foreign value that never expires
local id, ttl = ARGV[1], tonumber(ARGV[3])
local reservation = ARGV[6]

local function leave_queue()
  if reservation ~= '' then
    forget(KEYS[3], KEYS[4], reservation)
  end
end

local value = read(KEYS[1])
if failed(value) then
  return value
end
if value == 0 then
  return {-2, redis.call('TYPE', KEYS[1]).ok}
end

local mine = value and held_by(value, id)
if not mine and redis.call('ZSCORE', KEYS[5], id) then
  return {-1}
end

if not value then
  local token = '0'
  if ARGV[4] == '1' then
    token = next_token(KEYS[2], ARGV[5])
  end
  redis.call('SET', KEYS[1], 'gl1|m|' .. id .. '|' .. token .. '|' .. ARGV[3] .. '|' .. ARGV[2], 'PX', ttl)
  leave_queue()
  return {1, token}
end

if mine then
  local _, token = parse(value)
  arm(KEYS[1], ttl)
  leave_queue()
  return {1, token}
end

local left = redis.call('PTTL', KEYS[1])
if left == -1 then
  local _, _, lease = parse(value)
  if not lease then
    return {-3}
  end
  -- Ours, and somebody took its TTL away. The holder may be alive: it gets the
  -- whole of its lease once more, in which it can renew.
  left = math.max(tonumber(lease), ttl)
  redis.call('PEXPIRE', KEYS[1], left)
end

-- A server that is out of memory refuses the place, and the waiter polls.
local function enter_queue()
  local life = tonumber(ARGV[8])
  local now = now_us() / 1000
  if not redis.call('ZSCORE', KEYS[3], reservation) then
    local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    if failed(redis.pcall('ZADD', KEYS[3], (tonumber(last[2]) or 0) + 1, reservation)) then
      return
    end
  end
  arm(KEYS[3], life)
  if failed(redis.pcall('HSET', KEYS[4], reservation, 'gl1|1|' .. digits(now + life) .. '|' .. ARGV[7])) then
    return
  end
  arm(KEYS[4], life)
  -- Every waiter clears away the dead around it, so that none stay for good while
  -- the lock is held.
  local rank = redis.call('ZRANK', KEYS[3], reservation)
  for _, other in ipairs(redis.call('ZRANGE', KEYS[3], math.max(rank - 2, 0), rank + 2)) do
    if not entry_of(KEYS[4], other, now) then
      forget(KEYS[3], KEYS[4], other)
    end
  end
end

if reservation ~= '' then
  enter_queue()
end
return {0, left, value}
