-- Lengthens a lease. Never creates one.
--
-- KEYS record, fence
-- ARGV 1 id, 2 ttl ms, 3 retention ms of the fence or 0; on a node of a quorum 4 the token
-- reply 1 renewed · 0 there is no lock · -1 it is somebody else's
local value = read(KEYS[1])
if failed(value) then
  return value
end
if not value then
  return 0
end
if not held_by(value, ARGV[1]) then
  return -1
end
local ttl = tonumber(ARGV[2])
local _, token, lease = parse(value)
if ttl > tonumber(lease) then
  -- The record tells the longest TTL it was ever given. Where memory is short it
  -- cannot, but the lease is lengthened all the same.
  local tail = string.sub(value, 10 + #ARGV[1] + #token + #lease)
  local left = math.max(redis.call('PTTL', KEYS[1]), ttl)
  redis.pcall('SET', KEYS[1], 'gl1|m|' .. ARGV[1] .. '|' .. token .. '|' .. ARGV[2] .. '|' .. tail, 'PX', left)
end
arm(KEYS[1], ttl)
if ARGV[3] ~= '0' then
  arm(KEYS[2], tonumber(ARGV[3]))
  if ARGV[4] then
    raise_token(KEYS[2], ARGV[3], ARGV[4])
  end
end
return 1
