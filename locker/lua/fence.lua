-- The second step of a grant by a quorum: the node agrees to the largest token that the
-- first step gave, unless it knows a larger one.
--
-- KEYS record, fence
-- ARGV 1 id, 2 token, 3 retention ms
-- reply {1} agreed · {0} the lock is not this id's any more · {2, token} a larger one
local value = read(KEYS[1])
if failed(value) then
  return value
elseif not value or value == 0 or not held_by(value, ARGV[1]) then
  return {0}
end
return agree(KEYS[2], ARGV[3], ARGV[2])
