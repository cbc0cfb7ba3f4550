-- Lengthens a lease. Never creates one.
--
-- KEYS record, fence
-- ARGV 1 id, 2 ttl ms, 3 retention ms of the fence or 0
-- reply 1 renewed · 0 there is no lock · -1 it is somebody else's
local value = redis.pcall('GET', KEYS[1])
if not value then
  return 0
end
if type(value) == 'table' or not held_by(value, ARGV[1]) then
  return -1
end
local ttl = tonumber(ARGV[2])
local _, token, lease = parse(value)
if ttl > tonumber(lease) then
  -- The record tells the longest TTL it was ever given.
  local tail = string.sub(value, 10 + #ARGV[1] + #token + #lease)
  local left = math.max(redis.call('PTTL', KEYS[1]), ttl)
  redis.call('SET', KEYS[1], 'gl1|m|' .. ARGV[1] .. '|' .. token .. '|' .. ARGV[2] .. '|' .. tail, 'PX', left)
else
  arm(KEYS[1], ttl)
end
if ARGV[3] ~= '0' then
  arm(KEYS[2], tonumber(ARGV[3]))
end
return 1
