-- Ends a taking up whose outcome its caller never learned: the lease is detached
-- under its old id again, and the new id is remembered as given up.
--
-- KEYS record, over of the new id
-- ARGV 1 old id, 2 new id, 3 for how many ms to remember the new id
-- reply 1
local value = read(KEYS[1])
if failed(value) then
  return value
end
remember(KEYS[2], ARGV[3], '2')
if value and held_by(value, ARGV[2]) then
  local _, _, lease = parse(value)
  local tail = string.sub(value, 7 + #ARGV[2])
  redis.call('SET', KEYS[1], 'gl1|m|' .. ARGV[1] .. tail, 'PX', lease)
end
return 1
