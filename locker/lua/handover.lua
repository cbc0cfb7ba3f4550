-- Gives a free mutex to who waits first, and returns the id of the new holder. If
-- there is none, the record is gone.
local function hand_over(record, fence, queue, entries, trusted, me)
  local holder
  serve(queue, entries, trusted, me, function(e)
    if holder then
      return false
    end
    return e.mode == 'm' or nil
  end, function(e, lease)
    local token = next_token(fence, e.retention)
    if not token or failed(write(record, e.id, token, e.ttl, e.tail, lease)) then
      return nil
    end
    holder = e.id
    return token
  end)
  if not holder then
    redis.call('DEL', record)
  end
  return holder
end
