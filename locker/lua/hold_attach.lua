-- Takes a detached hold up. Its id changes from the old to the new one, so that one of
-- two takers wins, and every handle of the old id is void. Mode and owner stay.
--
-- KEYS record, fence, over of the new id, of the old one, and of that of an earlier taking up
-- ARGV 1 old id, 2 new id, 3 mode, 4 "<label>|<metadata>", 5 ttl ms, 6 fenced 0|1,
--      7 retention ms of the fence, 8 an id of this client that an earlier taking up
--      with unknown outcome may have left, or ""; 9 for how many ms to remember the
--      old id: a request that takes the lock under it may still be on its way; on
--      a node of a quorum 10 the token that is offered, 11 how far (µs) it may lie from
--      the clock, 12 the longest lease (ms), 13 life of the marker (ms), and the last of
--      KEYS is the marker
-- reply {1, token, owner} taken up · {0} nobody holds the lock · {-1} it is somebody
--      else's, or this taking up was given up · {-1, mode} the hold is of another mode ·
--      {-2, what, pttl} another kind of value · {-5, ms, marker} the node, which would draw
--      a token, does not take part yet
local refused = refusal(KEYS[1], ARGV[3], KEYS[4])
if refused then
  return refused
end
local now, ttl = now_us() / 1000, tonumber(ARGV[5])
local h = alive(KEYS[1], ARGV[2], now)
if h then
  return prolong(KEYS[1], ARGV[2], h, now + ttl, ttl, now) or {1, h.token, h.owner}
end
local old = ARGV[1]
h = alive(KEYS[1], old, now)
if not h and ARGV[8] ~= '' then
  old = ARGV[8]
  h = alive(KEYS[1], old, now)
end
if not h then
  -- This node of a quorum may not have been asked for the lock yet.
  refused = ARGV[10] and remember(KEYS[4], ARGV[9], '2') or write_nothing(KEYS[4])
  return refused or {find(KEYS[1], now) and -1 or 0}
elseif h.mode ~= ARGV[3] then
  return {-1, h.mode}
end
local over = redis.call('GET', KEYS[3])
if ARGV[10] and (over == '1' or redis.call('GET', KEYS[4]) == '1') then
  -- The node is so late that the lease has been released meanwhile.
  drop(KEYS[1], old, now)
  return {0}
end
if over then
  return {-1}
end
local fenced = h.token ~= '0' or ARGV[6] == '1'
local new = fenced and ARGV[10] and h.mode ~= 'r' and quarantine(KEYS[#KEYS], tonumber(ARGV[12]), tonumber(ARGV[13]))
if new then
  return new
end
local token, short = token_for(KEYS[2], h.mode, h.owner, fenced and ARGV[7] or '0', nil, ARGV[10], tonumber(ARGV[11] or 0))
if not token then
  return short
end
redis.call('HDEL', KEYS[1], '') -- Who must not delete is to get no second hold.
-- Nobody relies on a detached hold, so it may be shortened to the TTL of the new
-- holder. The longer TTL is kept for unattach.
local err = put(KEYS[1], ARGV[2], h.mode, now + ttl, math.max(ttl, tonumber(h.ttl)), token, h.owner, ARGV[4], now)
if err then
  return err
end
redis.call('HDEL', KEYS[1], old)
remember(KEYS[old == ARGV[1] and 4 or 5], ARGV[9], '2')
return {1, token, h.owner}
