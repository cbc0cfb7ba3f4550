-- A lock with owners, reentrant or read-write, is a hash of holds. Each hold has a
-- deadline of its own by the server's clock; the key's TTL reaches to the last of
-- them. The fields are
--
--   gl1    "x" reentrant, "rw" read-write
--   w      until when (server's ms) a hold that excludes other owners may last
--   n      from how many fields on a new reader looks for dead ones
--   <id>   "<mode x|w|r>|<until, server's ms>|<ttl>|<token>|<owner>|<label>|<metadata>"
local kinds = {x = 'x', w = 'rw', r = 'rw'}

local function hold_of(text)
  local h = {text = text}
  h.mode, h.expires, h.ttl, h.token, h.owner, h.tail = string.match(text, '^(%a)|(%d+)|(%d+)|(%d+)|([^|]*)|(.*)$')
  h.expires = tonumber(h.expires)
  return h.expires and h or broken('hold')
end

-- Returns the kind of lock at key, false if nothing is there, and for any other value
-- what kind_at calls it. An error means that nothing is known.
local function kind_of(key)
  local kind = redis.pcall('HGET', key, 'gl1')
  if wrong_type(kind) or not kind and redis.call('EXISTS', key) == 1 then
    return kind_at(key)
  end
  return kind
end

-- Returns what keeps the key from being a lock of this mode: an error, or a reply. A lock of
-- another kind that nobody holds any more does not keep it from that.
local function refusal(key, mode, beside)
  local kind = kind_of(key)
  if failed(kind) then
    return kind
  elseif kind and kind ~= kinds[mode] then
    return foreign(key, beside)
  end
end

-- Returns the hold if it is alive.
local function alive(key, id, now)
  local text = redis.call('HGET', key, id)
  local h = text and hold_of(text)
  return h and h.expires > now and h
end

-- Shows each hold that is alive to see(h, id), until that returns true, and forgets
-- those that have run out. Returns whether see did.
local function each(key, now, see)
  local cursor = '0'
  repeat
    local page = redis.call('HSCAN', key, cursor, 'COUNT', 64)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local id = page[2][i]
      if #id == 32 then
        local h = hold_of(page[2][i + 1])
        h.id = id
        if h.expires <= now then
          redis.call('HDEL', key, id)
        elseif see(h, id) then
          return true
        end
      end
    end
  until cursor == '0'
  return false
end

-- Returns a hold of another owner that stands in the way, and a hold of this
-- owner if it has met one.
local function look(key, now, mode, owner)
  local written = tonumber(redis.call('HGET', key, 'w') or 0)
  if mode == 'r' and written and written <= now then
    return -- No writer; readers are not looked at, there may be many.
  end
  local blocked, own
  each(key, now, function(h)
    if h.owner == owner then
      own = h
    elseif mode ~= 'r' or h.mode ~= 'r' then
      blocked = h
    end
    return blocked
  end)
  return blocked, own
end

-- Returns any hold that is alive.
local function find(key, now)
  local found
  each(key, now, function(h)
    found = h
    return true
  end)
  return found
end

-- Keeps the record for ttl ms. Where somebody took its TTL away, others may count on
-- more: then the record is kept until the last of its holds runs out.
local function keep(key, ttl, now)
  if arm(key, ttl) then
    local last = now
    each(key, now, function(h)
      last = math.max(last, h.expires)
    end)
    arm(key, math.ceil(last - now))
  end
end

-- Writes a hold. Other fields come with it in the same command, so that it is
-- written as a whole or, where memory is short, not at all; then the error is returned. The
-- error is also returned where the TTL cannot be set: nobody relies on that hold. A hold
-- that was there before stays.
local function put(key, id, mode, expires, ttl, token, owner, tail, now, there)
  local fields = {'gl1', kinds[mode], id, table.concat({mode, digits(expires), ttl, token, owner, tail}, '|')}
  if mode ~= 'r' then
    fields[5], fields[6] = 'w', digits(math.max(expires, tonumber(redis.call('HGET', key, 'w')) or 0))
  end
  local set = redis.pcall('HSET', key, (table.unpack or unpack)(fields))
  if failed(set) then
    return set
  end
  local new = set == #fields / 2
  local armed, err = pcall(new and arm or keep, key, math.ceil(expires - now), now)
  if not armed then
    -- The user must not set it. A new record must not stay without a TTL. (In an older
    -- record "w" stays, by which readers look for a writer, for it may be another hold's.)
    if new then
      redis.call('DEL', key)
    elseif not there then
      redis.pcall('HDEL', key, id)
    end
    return type(err) == 'table' and err or {err = err}
  end
end

-- The next writer comes upon readers that crashed. Where no writer comes, readers have
-- to look for them, when the number of readers has doubled.
local function tidy(key, now)
  local fields = redis.call('HLEN', key)
  if fields > (tonumber(redis.call('HGET', key, 'n')) or 128) then
    each(key, now, function() end)
    redis.pcall('HSET', key, 'n', math.max(128, 2 * redis.call('HLEN', key)))
  end
end

-- Lengthens a hold, even where memory is short: a server lets a script that has written
-- go on writing, and the first write here needs no memory.
local function prolong(key, id, h, expires, ttl, now)
  if expires > h.expires then
    redis.call('HDEL', key, '')
    return put(key, id, h.mode, expires, math.max(ttl, tonumber(h.ttl)), h.token, h.owner, h.tail, now, true)
  end
  keep(key, math.ceil(h.expires - now), now)
end

-- Ends a hold. The record goes with the last hold that is alive. Returns a hold that is
-- left.
local function drop(key, id, now)
  redis.call('HDEL', key, id)
  local written = (tonumber(redis.call('HGET', key, 'w') or 0) or now) > now
  local left, excludes
  each(key, now, function(h)
    left = h
    excludes = h.mode ~= 'r'
    return excludes or not written -- A writer may read, too.
  end)
  if not left then
    redis.call('DEL', key)
  elseif not excludes then
    redis.call('HDEL', key, 'w')
  end
  return left
end

-- Returns the token of a new hold: readers get that of the last writer, and a re-entry
-- gets that of the lease within which it is made.
local function token_for(fence, mode, owner, retention, within, offer, slack)
  if retention == '0' then
    return '0'
  elseif mode == 'r' then
    local last = redis.call('GET', fence) and digits(last_token(fence))
    if last then
      arm(fence, tonumber(retention))
    end
    return last or '0'
  elseif within and within.mode ~= 'r' and within.owner == owner and within.token ~= '0' then
    return within.token
  end
  return next_token(fence, retention, offer, slack)
end

-- Grants the lock to those whose turn it is: a writer alone, or the readers that wait
-- before the next writer. Returns the entry that is first after them.
local function pass_on(record, fence, queue, entries, trusted, me)
  local now = now_us() / 1000
  return serve(queue, entries, trusted, me, function(e)
    local mode = string.lower(e.mode)
    if not kinds[mode] then
      -- A waiter for another kind of lock has its turn when the key is free.
      if redis.call('EXISTS', record) == 1 and foreign(record, entries) then
        return false
      end
      return nil
    end
    if refusal(record, mode, entries) or look(record, now, mode, e.owner) then
      return false
    end
    return e.mode == mode or nil
  end, function(e, lease)
    -- The waiter may have got its hold by a request that did not name its place.
    local had = alive(record, e.id, now)
    if had then
      return had.token
    end
    -- Where the last token is not a valid one, the waiter is told, and asks then.
    local drawn, token = pcall(token_for, fence, e.mode, e.owner, e.retention)
    if not drawn or not token or put(record, e.id, e.mode, now + lease, e.ttl, token, e.owner, e.tail, now) then
      return nil
    end
    return token
  end)
end
