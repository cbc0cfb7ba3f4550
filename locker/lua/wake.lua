-- Tells the waiter that came first that the lock is free. A waiter whose client
-- does not listen just now is passed over, not removed: it may be reconnecting.
-- Where the count of PUBLISH cannot be trusted (a Cluster counts one node) a zero
-- proves nothing, and some more are told.
--
-- An entry of the queue is "gl1|<listens>|<until, server ms>|<channel>".
local function forget(queue, entries, reservation)
  redis.call('ZREM', queue, reservation)
  redis.call('HDEL', entries, reservation)
end

-- Returns nothing for an entry that is gone or has expired, and '0', as if it did
-- not listen, for one that another version wrote.
local function entry_of(entries, reservation, now)
  local entry = redis.call('HGET', entries, reservation)
  if not entry then
    return
  end
  local listens, expires, channel = string.match(entry, '^gl1|(%d)|(%d+)|(.*)$')
  if not expires then
    return '0'
  end
  if tonumber(expires) >= now then
    return listens, channel
  end
end

local function wake(queue, entries, trusted)
  local now = false
  local passed, told = 0, 0
  for _ = 1, 16 do
    local head = redis.call('ZRANGE', queue, passed, passed + 15)
    if #head == 0 then
      return
    end
    now = now or now_us() / 1000
    for _, reservation in ipairs(head) do
      local listens, channel = entry_of(entries, reservation, now)
      if not listens then
        forget(queue, entries, reservation)
      else
        passed = passed + 1
        if listens == '1' then
          local received = redis.pcall('PUBLISH', channel, 'gl1|w|' .. reservation)
          told = told + 1
          if failed(received) or received > 0 or (not trusted and told == 4) then
            return
          end
        end
      end
    end
  end
end
