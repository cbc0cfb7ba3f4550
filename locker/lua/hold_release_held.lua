-- As release_held, for locks with owners: the hold is the only one, and either nobody
-- waits, or the first waiter excludes others and the second is one of those. Waiters
-- that can hold the lock together are let in together, which is left to the script for
-- all cases. As in release_free, nobody counts as waiting where others have written to
-- the queue's key.
do
  local kind = redis.pcall('HGET', KEYS[1], 'gl1')
  local hold = type(kind) == 'string' and redis.call('HGET', KEYS[1], ARGV[1])
  local fields = hold and (string.sub(hold, 1, 1) == 'r' and 2 or 3)
  if hold and redis.call('HLEN', KEYS[1]) == fields then
    local head = redis.pcall('ZRANGE', KEYS[3], 0, 0)
    if head.err and not string.find(head.err, 'WRONGTYPE', 1, true) then
      return head
    end
    local first = head[1]
    local e = first and heir(first)
    local t = not first and redis.call('TIME')
    local now = t and t[1] * 1000 + t[2] / 1000 or e and e.now / 1000
    if now and (tonumber(string.match(hold, '^%a|(%d+)|')) or 0) > now then
      if not first then
        return freed()
      end
      local token = e and kind == (e.mode == 'x' and 'x' or e.mode == 'w' and 'rw') and kept_out(1, e.owner, e.now) and draw(e)
      if token then
        -- A script that deletes first may write where memory is short.
        redis.call('DEL', KEYS[1])
        local expires = string.format('%.0f', e.now / 1000 + e.lease)
        local set = redis.pcall('HSET', KEYS[1], 'gl1', kind, e.id,
          table.concat({e.mode, expires, e.ttl, token, e.owner, e.tail}, '|'), 'w', expires)
        if type(set) == 'number' and redis.pcall('PEXPIRE', KEYS[1], e.lease) == 1 then
          return granted(first, e, token)
        end
        -- Then nobody has the lock, and no record stays that would never end.
        redis.pcall('PUBLISH', e.channel, 'gl1|w|' .. first)
        return freed()
      end
    end
  end
end

