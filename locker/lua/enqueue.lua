-- Keeps a key of the queue for as long as a reservation lasts, and longer, so that those
-- who come later need not do so. Where that is not permitted, the key must not stay
-- without a TTL. The error is returned then, and the reservation has to be forgotten.
local function outlast(key, life)
  local left = redis.pcall('PTTL', key)
  if failed(left) then
    return left
  elseif left < life then
    local armed = redis.pcall('PEXPIRE', key, 2 * life)
    if failed(armed) then
      if left < 0 then
        redis.call('DEL', key)
      end
      return armed
    end
  end
end

-- Clears dead waiters away at the head of the queue and around a reservation, and goes on
-- while it meets any, so that none stay for good while the lock is held.
local function clear_away(queue, entries, reservation, now)
  local met, rounds = true, 0
  while met and rounds < 32 do
    met, rounds = false, rounds + 1
    local rank = redis.call('ZRANK', queue, reservation) or 0
    for _, from in ipairs({0, math.max(rank - 2, 0)}) do
      for _, other in ipairs(redis.call('ZRANGE', queue, from, from + 4)) do
        if dead(entry_of(entries, other), now / 1000) then
          forget(queue, entries, other)
          met = true
        end
      end
    end
  end
end

-- Reports whether as many stand in the queue of one lock as may, each with less than 6
-- KiB. Whoever comes then polls until there is room.
local function full(queue)
  return redis.call('ZRANGE', queue, 9999, 9999)[1]
end

-- Returns the entry of a reservation that has a place in the queue, and so need not enter
-- it.
local function place_of(queue, entries, reservation, now)
  local e = redis.call('ZSCORE', queue, reservation) and entry_of(entries, reservation)
  return e and e.seq and not dead(e, now) and e
end

-- Takes a place in the queue, or keeps it for longer. want has the entry's fields;
-- first puts it before all others, last after them. Returns the seq of the place. It is ''
-- where memory is short, or the queue is full: then the waiter polls. Any other fault is
-- returned as a second value, to be replied. A place is kept even where memory is short: a
-- server lets a script that has written go on writing, and the first write needs no
-- memory.
local function enqueue(queue, entries, reservation, life, want, first, last)
  local now = now_us()
  local e = place_of(queue, entries, reservation, now / 1000)
  -- Many may poll, and each would spend a quarter of its time on clearing away.
  local clears = not e or now % 8 == 4
  if not e then
    if not first and full(queue) then
      clear_away(queue, entries, reservation, now)
      return ''
    end
    local seq
    if first then
      local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
      seq = math.min(-now, (tonumber(head[2]) or 0) - 1)
    else
      -- A waiter that is not to be last comes before those that are.
      local below = last and '+inf' or '(' .. digits(after_all)
      local before = redis.call('ZREVRANGEBYSCORE', queue, below, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
      seq = math.max(last and now + after_all or now, (tonumber(before[2]) or 0) + 1)
    end
    seq = digits(seq)
    local added = redis.pcall('ZADD', queue, seq, reservation)
    if failed(added) then
      return '', denied(added) and added
    end
    e = {seq = seq, passed = '0', expires = 0}
  else
    redis.pcall('HDEL', entries, '')
  end
  local err = outlast(queue, life)
  if err then
    forget(queue, entries, reservation)
    return '', err
  end
  local entry = table.concat({'gl1', want.channel == '' and '0' or '1', e.passed, digits(math.max(e.expires, now / 1000 + life)),
    e.seq, want.mode, want.id, want.ttl, want.retention, want.owner, want.channel, want.tail}, '|')
  local set = redis.pcall('HSET', entries, reservation, entry)
  if failed(set) then
    return '', denied(set) and set
  end
  err = outlast(entries, life)
  if err then
    forget(queue, entries, reservation)
    return '', err
  end
  if clears then
    clear_away(queue, entries, reservation, now)
  end
  return e.seq
end

