-- Takes a detached lease up. The id changes from the old to the new one, so that one of
-- two takers wins, and every handle of the old id is void.
--
-- KEYS record, fence, over of the new id, of the old one, and of that of an earlier taking up
-- ARGV 1 old id, 2 new id, 3 "<label>|<metadata>", 4 ttl ms, 5 fenced 0|1,
--      6 retention ms of the fence, 7 an id of this client that an earlier taking up
--      with unknown outcome may have left, or ""; 8 for how many ms to remember the old
--      id: a request that takes the lock under it may still be on its way; on a node of a
--      quorum 9 the token that is offered, 10 how far (µs) it may lie from the clock, 11 the
--      longest lease (ms), 12 life of the marker (ms), and the last of KEYS is the marker
-- reply {1, token} taken up · {0} there is no lock · {-1} it is somebody else's, or
--      this taking up was given up · {-2, what, pttl} another kind of value · {-5, ms,
--      marker} the node, which would draw a token, does not take part yet
local value = read(KEYS[1])
if failed(value) then
  return value
end
if value == 0 then
  local reply = foreign(KEYS[1], KEYS[4])
  if reply then
    return reply
  end
  value = false
end
local ttl = tonumber(ARGV[4])
if value and held_by(value, ARGV[2]) then
  local _, token = parse(value)
  arm(KEYS[1], ttl)
  return {1, token}
end
local old = ARGV[1]
if value and ARGV[7] ~= '' and not held_by(value, old) then
  old = ARGV[7]
end
if not value or not held_by(value, old) then
  -- This node of a quorum may not have been asked for the lock yet.
  local refused = ARGV[9] and remember(KEYS[4], ARGV[8], '2') or write_nothing(KEYS[4])
  return refused or {value and -1 or 0}
end
local over = redis.call('GET', KEYS[3])
if ARGV[9] and (over == '1' or redis.call('GET', KEYS[4]) == '1') then
  -- The node is so late that the lease has been released meanwhile.
  redis.call('DEL', KEYS[1])
  return {0}
end
if over then
  return {-1}
end
local _, token, lease = parse(value)
if token ~= '0' or ARGV[5] == '1' then
  -- A node in quarantine may have the lock all the same, since a SET does not ask. But
  -- it may lack the last token.
  local new = ARGV[9] and quarantine(KEYS[#KEYS], tonumber(ARGV[11]), tonumber(ARGV[12]))
  if new then
    return new
  end
  local short
  token, short = next_token(KEYS[2], ARGV[6], ARGV[9], tonumber(ARGV[10] or 0))
  if not token then
    return short
  end
end
-- Nobody relies on a detached lease, so its TTL may be shortened to that of the new
-- holder. The record remembers the longer TTL, for unattach.
local longest = digits(math.max(ttl, tonumber(lease)))
local written = write(KEYS[1], ARGV[2], token, longest, ARGV[3], ttl)
if failed(written) then
  return written
end
remember(KEYS[old == ARGV[1] and 4 or 5], ARGV[8], '2')
return {1, token}
