-- Ends an attempt whose caller no longer waits: releases what it may have taken,
-- leaves the queue, and remembers the id so that a request of that attempt that
-- arrives later takes nothing.
--
-- KEYS record, fence, queue, entries, over
-- ARGV 1 id, 2 whether the count of PUBLISH can be trusted 0|1, 3 for how many ms
--      to remember the id, 4 reservation or ""; 5 on a node of a quorum, if the caller goes
--      on: then nobody is told where nothing has changed, lest all ask again and again
-- reply 1
local value = read(KEYS[1])
if failed(value) then
  return value
end
local refused = remember(KEYS[5], ARGV[3])
if refused then
  return refused
end
if ARGV[4] ~= '' and not no_queue(KEYS[3], KEYS[4]) then
  forget(KEYS[3], KEYS[4], ARGV[4])
end
if not value and not ARGV[5] or value and value ~= 0 and held_by(value, ARGV[1]) then
  hand_over(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2] == '1')
end
return 1
