-- For the short roads of the scripts that take locks: gives a newcomer the last place in
-- the queue. Returns its seq, or '' where memory is short. It returns nothing, and has
-- done nothing, if this is not so simple, or the queue is full; and for one newcomer in
-- sixty-four, who clears away waiters that are dead on the long road.
local function enter(now)
  if now % 64 == 32 then
    return
  end
  local seq, life = string.format('%d', now), tonumber(ARGV[9])
  if redis.pcall('ZADD', KEYS[3], 'NX', seq, ARGV[7]) ~= 1 then
    return
  end
  -- To ask for the last one's score would cost more: numbers with a fraction, as which
  -- scores are replied, are slow to print and to read. So is %.0f.
  local rank = redis.call('ZRANK', KEYS[3], ARGV[7])
  if rank > 9999 or redis.call('ZCARD', KEYS[3]) ~= rank + 1
    or redis.call('PTTL', KEYS[3]) < life and redis.pcall('PEXPIRE', KEYS[3], 2 * life) ~= 1 then
    redis.call('ZREM', KEYS[3], ARGV[7])
    return
  end
  local set = redis.pcall('HSET', KEYS[4], ARGV[7], 'gl1|' .. (ARGV[8] == '' and '0' or '1') .. '|0|' .. string.format('%d', now / 1000 + life)
    .. '|' .. seq .. '|' .. ARGV[2] .. '|' .. ARGV[1] .. '|' .. ARGV[5] .. '|' .. ARGV[6] .. '|' .. ARGV[3] .. '|' .. ARGV[8]
    .. '|' .. ARGV[4])
  if type(set) == 'table' then
    return -- The long road tells whether memory is short, or a permission is missing.
  elseif set ~= 1 then
    return ''
  end
  if redis.call('PTTL', KEYS[4]) < life then
    redis.call('PEXPIRE', KEYS[4], 2 * life)
  end
  return seq
end

