-- Gives a free mutex to the first waiter, and returns the id of the new holder. If
-- there is none, the record is gone.
local function hand_over(record, fence, queue, entries, trusted, me)
  local holder
  local function turn(e)
    if holder then
      return false
    end
    return e.mode == 'm' or nil
  end
  local function take(e, lease)
    -- Where the last token is not a valid one, the waiter is told, and asks then.
    local drawn, token = pcall(next_token, fence, e.retention)
    if not drawn or not token or failed(write(record, e.id, token, e.ttl, e.tail, lease)) then
      return nil
    end
    holder = e.id
    return token
  end
  if not no_queue(queue, entries) then
    serve(queue, entries, trusted, me, turn, take)
  end
  if not holder then
    redis.call('DEL', record)
  end
  return holder
end
