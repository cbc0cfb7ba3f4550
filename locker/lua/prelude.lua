-- Shared by the scripts below; docs/format.md describes what they store.
--
-- A mutex record is the string "gl1|m|<id>|<token>|<ttl>|<label>|<metadata>".
local function parse(value)
  local id, token, ttl = string.match(value, '^gl1|m|(%x+)|(%d+)|(%d+)|[^|]*|')
  if id and #id == 32 then
    return id, token, ttl
  end
end

-- Returns the string at key, or false, or 0 for a value of another type (which is
-- nobody's record), or an error. An error tells that nothing is known; it must be
-- returned to the caller.
local function read(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' and string.find(value.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return value
end

local function failed(value)
  return type(value) == 'table'
end

local function held_by(value, id)
  return string.sub(value, 1, 7 + #id) == 'gl1|m|' .. id .. '|'
end

-- Renewing and extending only lengthen: a duplicate that arrives late must not
-- shorten what a newer request has granted.
local function arm(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
end

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Lua prints large numbers with 14 digits only; %.0f is exact up to 2^53.
local function digits(n)
  return string.format('%.0f', n)
end

-- The counter is written before the record: should the record fail to be
-- written, a token is skipped and nothing else happened.
local function next_token(key, retention)
  local last = tonumber(redis.call('GET', key) or '0')
  local token = digits(math.max(last + 1, now_us()))
  redis.call('SET', key, token, 'PX', retention)
  return token
end

-- Remembers the id of an attempt that is over, so that a request of it that is
-- still on its way takes nothing. It must not stand in the way of a release:
-- where memory is short, the late request leaves a lease that lapses by itself.
local function remember(key, id, life)
  local now = now_us() / 1000
  if not failed(redis.pcall('ZADD', key, now + life, id)) then
    arm(key, life)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  end
end
