-- For the short roads of the scripts that release. Returns all that is needed to grant the
-- lock to the first reservation, if its waiter is alive and listens.
local function heir(first)
  local entry = redis.pcall('HGET', KEYS[4], first)
  local passed, expires, seq, mode, id, ttl, retention, owner, channel, tail = string.match(type(entry) == 'string' and entry or '',
    '^gl1|1|(%d)|(%d+)|(%-?%d+)|(%l)|(%x+)|(%d+)|(%d+)|([^|]*)|([^|]*)|(.*)$')
  if not mode then
    return
  end
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  local left = expires - now / 1000
  if left < 1 or ARGV[2] == '1' and passed == '0' and redis.pcall('PUBSUB', 'NUMSUB', channel)[2] == 0 then
    return
  end
  return {mode = mode, id = id, seq = seq, ttl = ttl, retention = retention, owner = owner, channel = channel, tail = tail,
    lease = tonumber(ttl) <= left and ttl or string.format('%.0f', math.floor(left)), now = now}
end

-- Draws the heir's fencing token. Returns false where memory is short, or the last
-- token is not a valid one.
local function draw(e)
  if e.retention == '0' then
    return '0'
  end
  local last = tonumber(redis.pcall('GET', KEYS[2]) or e.now + 3999) -- see next_token
  if not last or not (last >= 0 and last < 9007199254740991) then
    return false
  end
  local token = string.format('%.0f', math.max(last + 1, e.now))
  return redis.pcall('SET', KEYS[2], token, 'PX', e.retention).ok and token
end

-- Ends a release: the id is over, and the lock is the heir's.
local function granted(first, e, token)
  if ARGV[3] ~= '0' then
    redis.pcall('SET', KEYS[5], '1', 'PX', ARGV[3])
  end
  redis.call('ZREM', KEYS[3], first)
  redis.call('HDEL', KEYS[4], first)
  redis.pcall('PUBLISH', e.channel, 'gl1|g|' .. first .. '|' .. e.seq .. '|' .. token)
  return 1
end

-- Ends a release where nobody waits.
local function freed()
  if ARGV[3] ~= '0' then
    redis.pcall('SET', KEYS[5], '1', 'PX', ARGV[3])
  end
  redis.call('DEL', KEYS[1])
  return 1
end

