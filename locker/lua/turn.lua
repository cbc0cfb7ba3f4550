-- Asked by a client that passes the mutex on among its goroutines: whether others wait,
-- and for fencing tokens to go with it. The tokens after the last one, up to the one that is
-- returned, are then the holder's; nobody else draws a token while it holds the lock. If it
-- crashes, the next holder draws from there. The tokens run ahead of the clock by ARGV 4; by
-- more only where the last one is nearly that far ahead already, as there are at least 64.
--
-- KEYS record, fence, queue
-- ARGV 1 id, 2 retention ms of the fence, 0 without; 3 the last token that the holder has
--      used; 4 how far (µs) the tokens may run ahead of the clock
-- reply {1, others 0|1, token or 0} held · {0} there is no lock · {-1} it is somebody else's
local value = read(KEYS[1])
if failed(value) then
  return value
end
if not value or value == 0 or not held_by(value, ARGV[1]) then
  return write_nothing(KEYS[3]) or {value and -1 or 0}
end
local token = '0'
if ARGV[2] ~= '0' then
  local last = math.max(last_token(KEYS[2]), tonumber(ARGV[3]))
  token = digits(math.max(last + 64, now_us() + ARGV[4]))
  local set = set_token(KEYS[2], token, ARGV[2])
  if failed(set) then
    return set
  end
end
return {1, redis.call('EXISTS', KEYS[3]), token}
