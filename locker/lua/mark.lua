-- mark
-- Has a node of a quorum that lacks a lease begin its quarantine, if it has lost its data,
-- although nobody asks it for a lock.
--
-- KEYS marker
-- ARGV 1 the longest lease (ms), 2 life of the marker (ms)
-- reply {-5, ms left, marker} the node is in quarantine · {1} it is not
return quarantine(KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])) or {1}
