-- The road of nearly everyone who comes to a lock that others want, too. It comes ahead
-- of the script for all cases, as in acquire_free: somebody holds the lock, and this
-- reservation enters the queue for the first time. KEYS, ARGV and the reply are those of
-- the script.
if ARGV[7] ~= '' and ARGV[2] == 'm' and not ARGV[12] then
  local found = redis.call('MGET', KEYS[1], KEYS[5])
  local record = found[1]
  local mine = 'gl1|m|' .. ARGV[1] .. '|'
  if record and not found[2] and string.sub(record, 1, #mine) ~= mine then
    local left, t = redis.call('PTTL', KEYS[1]), redis.call('TIME')
    local seq = left >= 0 and enter(t[1] * 1000000 + t[2])
    if seq then
      return {0, left, string.sub(record, 1, 8192), seq}
    end
  end
end

