-- Shared by the scripts below; docs/format.md describes what they store.
local function failed(value)
  return type(value) == 'table' and value.err ~= nil
end

local function wrong_type(value)
  return failed(value) and string.find(value.err, 'WRONGTYPE', 1, true)
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

-- Draws a fencing token; without retention the lock has none, which is '0'. It is
-- drawn before the record is written: should that fail, a token is skipped and
-- nothing else happened. Returns nil and the error where memory is short.
local function next_token(key, retention)
  if retention == '0' then
    return '0'
  end
  local last = tonumber(redis.call('GET', key) or '0')
  local token = digits(math.max(last + 1, now_us()))
  local set = redis.pcall('SET', key, token, 'PX', retention)
  if failed(set) then
    return nil, set
  end
  return token
end

-- Remembers the id of an attempt that is over, so that a request of it that is
-- still on its way takes nothing. It must not stand in the way of a release:
-- where memory is short, the late request leaves a lease that lapses by itself.
local function remember(key, id, life)
  if life == '0' then
    return
  end
  local now = now_us() / 1000
  if not failed(redis.pcall('ZADD', key, now + life, id)) then
    arm(key, tonumber(life))
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  end
end

-- Names what stands at a key where another kind of lock was expected.
local function kind_at(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' and string.sub(redis.call('GET', key), 1, 6) == 'gl1|m|' then
    return 'mutex'
  elseif kind == 'hash' then
    local locks = {x = 'reentrant lock', rw = 'read-write lock'}
    return locks[redis.call('HGET', key, 'gl1')] or kind
  end
  return kind
end
