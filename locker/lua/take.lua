-- The first try of an attempt to take a fenced mutex at a node of a quorum: the mutex is
-- taken if it is free. This is nearly always all that is needed, and costs less than the
-- script for all cases, which is asked if this one does not suffice. It draws the token as
-- that script does.
--
-- KEYS record, fence, over, marker
-- ARGV 1 id, 2 "|<ttl>|<label>|<metadata>", 3 ttl ms, 4 retention ms of the fence, 5 the
--      token that is offered, 6 how far (µs) it may lie from the clock, 7 the longest lease
--      (ms), 8 life of the marker (ms)
-- reply {1, token} held · {0} the lock is not free · {2} it takes the script for all cases
--      to tell
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {0}
end
local born = redis.pcall('GET', KEYS[4])
if not born or redis.call('EXISTS', KEYS[3]) == 1 then
  return {2}
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local age = tonumber(born) and now / 1000 - born
if not (age and age >= tonumber(ARGV[7]) and age < ARGV[8] / 2) then
  return {2}
end
-- A request that is executed once more, when its lease is over, offers a token that is
-- known already. So nobody has to remember the ids of leases that were taken in this
-- way.
local offer, last, slack = tonumber(ARGV[5]), tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(ARGV[6])
if not last or not (last >= 0 and offer > last) or offer > now + slack then
  return {2}
end
local token = string.format('%.0f', math.max(offer, now - slack))
local drawn = redis.pcall('SET', KEYS[2], token, 'PX', ARGV[4])
if drawn.ok and redis.pcall('SET', KEYS[1], 'gl1|m|' .. ARGV[1] .. '|' .. token .. ARGV[2], 'PX', ARGV[3]).ok then
  return {1, token}
end
return {2}
