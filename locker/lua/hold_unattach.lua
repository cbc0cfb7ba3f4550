-- Ends a taking up whose outcome its caller never learned: the hold is detached
-- under its old id again, and the new id is remembered as given up.
--
-- KEYS record, over of the new id; on a node of a quorum over of the old one
-- ARGV 1 old id, 2 new id, 3 for how many ms to remember the new id
-- reply 1
local kind = kind_of(KEYS[1])
if failed(kind) then
  return kind
end
local refused = remember(KEYS[2], ARGV[3], '2')
if refused then
  return refused
end
if kind == 'x' or kind == 'rw' then
  local now = now_us() / 1000
  local h = alive(KEYS[1], ARGV[2], now)
  if h and KEYS[3] and redis.call('GET', KEYS[3]) == '1' then
    drop(KEYS[1], ARGV[2], now) -- Another taker had the lease, and has released it.
  elseif h then
    redis.call('HDEL', KEYS[1], '') -- as in hold_attach
    local err = put(KEYS[1], ARGV[1], h.mode, now + h.ttl, h.ttl, h.token, h.owner, h.tail, now)
    if err then
      return err
    end
    redis.call('HDEL', KEYS[1], ARGV[2])
  end
end
return 1
