-- Tells the waiter that came first that the lock is free. A waiter whose client
-- no longer listens is passed over, not removed: it may be reconnecting. Where
-- the count of PUBLISH cannot be trusted (a Cluster counts one node) the first
-- two are told.
--
-- An entry of the queue is "gl1|<listens>|<until, server ms>|<channel>".
local function wake(queue, entries, trusted)
  local head = redis.call('ZRANGE', queue, 0, 15)
  if #head == 0 then
    return
  end
  local now = now_us() / 1000
  local told = 0
  for _, reservation in ipairs(head) do
    local entry = redis.call('HGET', entries, reservation)
    local listens, expires, channel
    if entry then
      listens, expires, channel = string.match(entry, '^gl1|(%d)|(%d+)|(.*)$')
    end
    if not expires or tonumber(expires) < now then
      redis.call('ZREM', queue, reservation)
      redis.call('HDEL', entries, reservation)
    elseif listens == '1' then
      local received = redis.pcall('PUBLISH', channel, 'gl1|w|' .. reservation)
      if type(received) ~= 'number' then
        return
      end
      told = told + 1
      if (trusted and received > 0) or (not trusted and told == 2) then
        return
      end
    end
  end
end
