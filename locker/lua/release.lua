-- Gives the lock up and tells the next waiter.
--
-- KEYS record, queue, entries, void
-- ARGV 1 id, 2 whether the count of PUBLISH can be trusted 0|1, 3 for how many ms
--      to remember the id, 0 unless a request for it may still be on its way
-- reply 1 released · 0 there was no lock · -1 it is somebody else's
local value = read(KEYS[1])
if failed(value) then
  return value
end
if ARGV[3] ~= '0' then
  remember(KEYS[4], ARGV[1], tonumber(ARGV[3]))
end
if value and not held_by(value, ARGV[1]) then
  return -1
end
local reply = 0
if value then
  redis.call('DEL', KEYS[1])
  reply = 1
end
wake(KEYS[2], KEYS[3], ARGV[2] == '1')
return reply
