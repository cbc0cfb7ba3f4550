-- mark
-- Has a node of a quorum that nobody asks for a lock begin its quarantine, if it has lost its
-- data, and tell whether it would write a lock.
--
-- KEYS marker
-- ARGV 1 the longest lease (ms), 2 life of the marker (ms)
-- reply {-5, ms left, marker} the node is in quarantine · {1} it is not
local new = quarantine(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]))
if new then
  return new
end
local set = redis.pcall('SET', KEYS[1], redis.call('GET', KEYS[1]), 'PX', ARGV[2])
return failed(set) and set or {1}
