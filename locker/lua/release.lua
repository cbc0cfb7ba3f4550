-- Gives the mutex up, to the first waiter.
--
-- KEYS record, fence, queue, entries, over
-- ARGV 1 id, 2 whether the count of PUBLISH can be trusted 0|1, 3 for how many ms
--      to remember the id, 0 unless a request under it may still be on its way; 4 the
--      reservation that may still stand in the queue, if there is one: at a node of a quorum,
--      or where a request under the id has come after the lease had run out
-- reply 1 released · 0 there was no lock · -1 it is somebody else's
local value = read(KEYS[1])
if failed(value) then
  return value
end
local refused = remember(KEYS[5], ARGV[3])
if refused then
  return refused
end
if ARGV[4] and not no_queue(KEYS[3], KEYS[4]) then
  forget(KEYS[3], KEYS[4], ARGV[4])
end
if value and (value == 0 or not held_by(value, ARGV[1])) then
  return write_nothing(KEYS[4]) or -1
end
hand_over(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2] == '1')
return value and 1 or write_nothing(KEYS[4]) or 0
