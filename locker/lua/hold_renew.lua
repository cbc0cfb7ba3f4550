-- hold_renew
-- Lengthens holds. Never creates one.
local now = now_us() / 1000
return renew_each(function(record, id)
  local kind = kind_of(record)
  if failed(kind) then
    return kind
  elseif not kind then
    return gone(record, 0)
  elseif kind ~= 'x' and kind ~= 'rw' then
    return -1
  end
  local h = alive(record, id, now)
  if not h then
    return gone(record, find(record, now) and -1 or 0)
  end
  return prolong(record, id, h, now + ttl, ttl, now) or 1
end)
