-- As acquire_free, for locks with owners: the lock is free, nobody waits for it, and the
-- attempt is not over. KEYS, ARGV and the reply are those of the script.
if not ARGV[12] and (ARGV[2] ~= 'r' or ARGV[6] == '0') and redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5]) == 0 then
  local t = redis.call('TIME')
  local now, token, drawn = t[1] * 1000000 + t[2], '0', true
  if ARGV[6] ~= '0' then
    local last = tonumber(redis.call('GET', KEYS[2]) or now + 3999) -- see next_token
    drawn = last and last >= 0 and last < 9007199254740991
    if drawn then
      token = string.format('%.0f', math.max(last + 1, now))
      drawn = redis.pcall('SET', KEYS[2], token, 'PX', ARGV[6]).ok
    end
  end
  local expires = string.format('%.0f', now / 1000 + ARGV[5])
  local hold = table.concat({ARGV[2], expires, ARGV[5], token, ARGV[3], ARGV[4]}, '|')
  local set
  if drawn and ARGV[2] == 'r' then
    set = redis.pcall('HSET', KEYS[1], 'gl1', 'rw', ARGV[1], hold)
  elseif drawn then
    set = redis.pcall('HSET', KEYS[1], 'gl1', ARGV[2] == 'x' and 'x' or 'rw', ARGV[1], hold, 'w', expires)
  end
  if type(set) == 'number' then
    if redis.pcall('PEXPIRE', KEYS[1], ARGV[5]) == 1 then
      return {1, token}
    end
    redis.call('DEL', KEYS[1]) -- It must not stay without a TTL, which the user must not set.
  end
end

