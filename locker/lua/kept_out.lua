-- For the short roads of locks with owners. Reports whether the place in the queue with
-- this rank is free, or belongs to a waiter that is alive and that a hold of that owner
-- keeps out.
local function kept_out(rank, owner, now)
  local reservation = redis.call('ZRANGE', KEYS[3], rank, rank)[1]
  if not reservation then
    return true
  end
  local expires, other = string.match(redis.call('HGET', KEYS[4], reservation) or '',
    '^gl1|%d|%d|(%d+)|%-?%d+|%l|%x+|%d+|%d+|([^|]*)|')
  return other and other ~= owner and expires - now / 1000 >= 1
end

