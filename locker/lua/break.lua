-- Ends leases on a lock, whoever holds them: all, or those that somebody has seen. Deletes
-- only what is provably a lock of ours. The first waiter, which may be of any kind, is told to
-- ask.
--
-- KEYS record, queue, entries
-- ARGV 1 the fingerprints of the leases to end, with blanks between them, or "*" for all
-- on a node of a quorum also KEYS marker and ARGV 2 the longest lease (ms)
-- reply {1, what was ended, as GET or HGETALL would give it, pttl, server's ms} ended · {0} there
--      was no lock · {-1, record, pttl, server's ms} others hold it, and it was let be · {-2, type,
--      pttl} something foreign · {-5, ms, one of these} the node may have forgotten a lease
local wanted = {}
for lease in string.gmatch(ARGV[1], '%x+') do
  wanted[lease] = true
end

local function meant(id)
  return ARGV[1] == '*' or wanted[string.sub(redis.sha1hex(id), 1, 16)]
end

-- Returns the holds to end, as HGETALL would give them, whether any hold stays, and whether
-- one that stays excludes others. A hold that has run out does not count: it need not be
-- ended, and keeps nobody out.
local function divide(fields, now)
  local ended, stays, excludes = {}, false, false
  for i = 1, #fields, 2 do
    local id = fields[i]
    if #id == 32 then
      local h = hold_of(fields[i + 1])
      if h.expires > now and meant(id) then
        ended[#ended + 1], ended[#ended + 2] = id, h.text
      elseif h.expires > now then
        stays, excludes = true, excludes or h.mode ~= 'r'
      end
    end
  end
  return ended, stays, excludes
end

local function break_it()
  local kind, now = redis.call('TYPE', KEYS[1]).ok, digits(now_us() / 1000)
  local value, left = nil, redis.call('PTTL', KEYS[1])
  local ended, stays, excludes
  if kind == 'none' then
    return write_nothing(KEYS[3]) or {0}
  elseif kind == 'string' then
    value = redis.call('GET', KEYS[1])
    local id = parse(value)
    if not id then
      return write_nothing(KEYS[3]) or {-2, kind, left}
    elseif not meant(id) then
      return write_nothing(KEYS[3]) or {-1, value, left, now}
    end
    ended = value
  else
    if kind_at(KEYS[1]) == kind then
      return write_nothing(KEYS[3]) or {-2, kind, left}
    end
    value = redis.call('HGETALL', KEYS[1])
    if ARGV[1] == '*' then
      ended = value -- also what no version has written: it is a lock, and is to go
    else
      ended, stays, excludes = divide(value, tonumber(now))
      if #ended == 0 then
        return write_nothing(KEYS[3]) or {-1, value, left, now}
      end
    end
  end
  -- These fail if the keys are not ours; after the first write it would be too late.
  redis.call('ZCARD', KEYS[2])
  redis.call('HLEN', KEYS[3])
  if stays then
    for i = 1, #ended, 2 do
      redis.call('HDEL', KEYS[1], ended[i])
    end
    if not excludes then
      redis.call('HDEL', KEYS[1], 'w')
    end
  else
    redis.call('DEL', KEYS[1])
  end
  -- A command that may not be run in there leaves the waiters to their poll, but no
  -- lock unbroken.
  pcall(serve, KEYS[2], KEYS[3], false, '', function() return nil end)
  return {1, ended, left, now}
end
return unless_young(break_it(), KEYS[4], ARGV[2])
