-- Ends a lease whoever holds it. Deletes only what is provably a lock of ours.
--
-- KEYS record, queue, entries
-- ARGV 1 whether the count of PUBLISH can be trusted 0|1
-- reply {1, record, pttl} released · {0} there was no lock · {-2, type} something foreign
local value = read(KEYS[1])
if failed(value) then
  return value
end
if not value then
  return {0}
end
if not parse(value) then
  return {-2, redis.call('TYPE', KEYS[1]).ok}
end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
wake(KEYS[2], KEYS[3], ARGV[1] == '1')
return {1, value, left}
