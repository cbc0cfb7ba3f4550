-- The road of nearly everyone, ahead of the script for all cases, as in acquire_free: the
-- lease is there, nobody waits, and nothing has to be remembered.
local record = redis.pcall('GET', KEYS[1])
local mine = 'gl1|m|' .. ARGV[1] .. '|'
mine = type(record) == 'string' and string.sub(record, 1, #mine) == mine
local first = mine and redis.call('ZRANGE', KEYS[3], 0, 0)[1]
if mine and not first and ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
  return 1
end

