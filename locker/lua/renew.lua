-- renew
-- Lengthens leases of mutexes. Never creates one.
return renew_each(function(record, id)
  local value = read(record)
  if failed(value) then
    return value
  end
  if not value then
    return gone(record, 0)
  end
  if not held_by(value, id) then
    return value == 0 and -1 or gone(record, -1)
  end
  -- parse is not used here: it takes more time, and tells what is known already.
  local token, lease = string.match(value, '^|(%d+)|(%d+)|', 7 + #id)
  if ttl > tonumber(lease) then
    -- The record tells the longest TTL it was ever given. Where memory is short it
    -- cannot, but the lease is lengthened all the same.
    local tail = string.sub(value, 10 + #id + #token + #lease)
    local left = math.max(redis.call('PTTL', record), ttl)
    redis.pcall('SET', record, 'gl1|m|' .. id .. '|' .. token .. '|' .. digits(ttl) .. '|' .. tail, 'PX', left)
  end
  local lost = arm(record, ttl)
  if lost then
    arm(record, tonumber(lease)) -- which its holder may count on
  end
  return 1
end)
