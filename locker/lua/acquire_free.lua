-- The road that is taken nearly always, ahead of the script for all cases: the lock is
-- free, nobody waits for it, and the attempt is not over. It then does what that script
-- would do; in any other case it does nothing, and that script goes on. It is faster
-- because it defines no functions and asks for no more than it has to. KEYS, ARGV and
-- the reply are those of that script.
do
  local node = ARGV[12]
  local there = node and redis.call('EXISTS', KEYS[1], KEYS[5]) or redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5])
  if there == 0 and not (node and ARGV[7] ~= '') then
    local t = redis.call('TIME')
    local now = t[1] * 1000000 + t[2]
    local offer, ready, born = now, true, nil
    if node then
      born = redis.pcall('GET', KEYS[6])
      local age = tonumber(born or '') and now / 1000 - born
      ready = age and age >= tonumber(ARGV[14]) and age < tonumber(ARGV[15]) / 2
      offer = math.min(math.max(tonumber(node), now - ARGV[13]), now + ARGV[13])
    end
    local token, drawn = '0', {ok = true}
    if ready and ARGV[6] ~= '0' then
      local last = tonumber(redis.call('GET', KEYS[2]) or not node and now + 3999 or 0) -- see next_token
      drawn = {}
      if last and last >= 0 and last < 9007199254740991 then
        token = string.format('%.0f', math.max(last + 1, offer))
        drawn = redis.pcall('SET', KEYS[2], token, 'PX', ARGV[6])
      end
    end
    if ready and drawn.ok then
      local set = redis.pcall('SET', KEYS[1], table.concat({'gl1', 'm', ARGV[1], token, ARGV[5], ARGV[4]}, '|'), 'PX', ARGV[5])
      if set.ok then
        return {1, token, born}
      end
    end
  end
end

