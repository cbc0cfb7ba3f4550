-- Ends a taking up whose outcome its caller never learned: the lease is detached
-- under its old id again, and the new id is remembered as given up.
--
-- KEYS record, over of the new id; on a node of a quorum over of the old one
-- ARGV 1 old id, 2 new id, 3 for how many ms to remember the new id
-- reply 1
local value = read(KEYS[1])
if failed(value) then
  return value
end
local refused = remember(KEYS[2], ARGV[3], '2')
if refused then
  return refused
end
if value and held_by(value, ARGV[2]) then
  if KEYS[3] and redis.call('GET', KEYS[3]) == '1' then
    redis.call('DEL', KEYS[1]) -- Another taker had the lease, and has released it.
    return 1
  end
  local _, _, lease = parse(value)
  local tail = string.sub(value, 7 + #ARGV[2])
  redis.call('SET', KEYS[1], 'gl1|m|' .. ARGV[1] .. tail, 'PX', lease)
end
return 1
