-- The road of nearly everyone who comes to a lock that others want, too, ahead of the
-- script for all cases, as in acquire_free: somebody holds the lock, and this
-- reservation enters the queue for the first time. One newcomer in sixteen takes the
-- long road all the same, on which it clears away waiters that are dead.
-- KEYS, ARGV and the reply are those of the script.
if ARGV[7] ~= '' and ARGV[2] == 'm' and not ARGV[12] then
  local found = redis.call('MGET', KEYS[1], KEYS[5])
  local record = found[1]
  local mine = 'gl1|m|' .. ARGV[1] .. '|'
  if record and not found[2] and string.sub(record, 1, #mine) ~= mine then
    local left, t = redis.call('PTTL', KEYS[1]), redis.call('TIME')
    local now = t[1] * 1000000 + t[2]
    local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
    local seq = string.format('%d', now)
    if left >= 0 and now % 16 ~= 8 and tonumber(last or 0) < now and redis.pcall('ZADD', KEYS[3], 'NX', seq, ARGV[7]) == 1 then
      local life = tonumber(ARGV[9])
      if redis.call('PTTL', KEYS[3]) < life then
        redis.call('PEXPIRE', KEYS[3], 2 * life)
      end
      local set = redis.pcall('HSET', KEYS[4], ARGV[7], 'gl1|' .. (ARGV[8] == '' and '0' or '1') .. '|0|'
        .. string.format('%d', now / 1000 + life) .. '|' .. seq .. '|m|' .. ARGV[1] .. '|' .. ARGV[5] .. '|' .. ARGV[6]
        .. '||' .. ARGV[8] .. '|' .. ARGV[4])
      if set ~= 1 then
        return {0, left, record, ''}
      end
      if redis.call('PTTL', KEYS[4]) < life then
        redis.call('PEXPIRE', KEYS[4], 2 * life)
      end
      return {0, left, record, seq}
    end
  end
end

