-- For the short roads of the scripts that take locks: gives a newcomer the last place in
-- the queue. Returns the seq of the place. It returns nothing, and leaves at most a place
-- without an entry, if this is not so simple, or the queue is full; and for one newcomer in
-- sixty-four, which clears dead waiters away on the long road.
--
-- Asking for the score of the last entry would cost more than finding out that nobody is
-- behind this one: scores are replied as numbers that may have a fraction, which are
-- slow to print and to read. So is %.0f, while %d alone is too small on a 32-bit server.
local function enter(now)
  if now % 64 == 32 then
    return
  end
  local seq, life = string.format('%d%06d', math.floor(now / 1000000), now % 1000000), tonumber(ARGV[9])
  if redis.pcall('ZADD', KEYS[3], 'NX', seq, ARGV[7]) ~= 1 then
    return
  end
  local left = redis.pcall('PTTL', KEYS[3])
  local lasts = type(left) == 'number' and (left >= life or redis.pcall('PEXPIRE', KEYS[3], 2 * life) == 1)
  local rank = lasts and redis.pcall('ZRANK', KEYS[3], ARGV[7])
  if type(rank) ~= 'number' or rank > 9999 or redis.pcall('ZCARD', KEYS[3]) ~= rank + 1 then
    redis.call('ZREM', KEYS[3], ARGV[7])
    return
  end
  local till = math.floor(now / 1000 + life)
  local set = redis.pcall('HSET', KEYS[4], ARGV[7], 'gl1|' .. (ARGV[8] == '' and '0' or '1') .. '|0|'
    .. string.format('%d%03d', math.floor(till / 1000), till % 1000) .. '|' .. seq .. '|' .. ARGV[2] .. '|' .. ARGV[1] .. '|' .. ARGV[5]
    .. '|' .. ARGV[6] .. '|' .. ARGV[3] .. '|' .. ARGV[8] .. '|' .. ARGV[4])
  if type(set) == 'table' then
    return -- The long road tells whether memory is short, or a permission is missing.
  end
  left = redis.pcall('PTTL', KEYS[4])
  if type(left) ~= 'number' or left < life and redis.pcall('PEXPIRE', KEYS[4], 2 * life) ~= 1 then
    redis.call('HDEL', KEYS[4], ARGV[7]) -- which may be the only one, of a key without a TTL
    redis.call('ZREM', KEYS[3], ARGV[7])
    return
  end
  return seq
end

