-- Ends an attempt whose caller no longer waits: releases what it may have taken,
-- leaves the queue, and remembers the id so that a request of that attempt that
-- arrives later takes nothing.
--
-- KEYS record, queue, entries, void
-- ARGV 1 id, 2 whether the count of PUBLISH can be trusted 0|1, 3 reservation or
--      "", 4 for how many ms to remember the id
-- reply 1
local value = read(KEYS[1])
if failed(value) then
  return value
end
if ARGV[4] ~= '0' then
  remember(KEYS[4], ARGV[1], tonumber(ARGV[4]))
end
if ARGV[3] ~= '' then
  forget(KEYS[2], KEYS[3], ARGV[3])
end
if value and held_by(value, ARGV[1]) then
  redis.call('DEL', KEYS[1])
  value = false
end
if not value then
  wake(KEYS[2], KEYS[3], ARGV[2] == '1')
end
return 1
