-- renewals
-- Shared by the scripts that lengthen leases, each of another lock, in one request.
--
-- KEYS record of each lease, and behind it its fence where retention is not 0
-- ARGV id of each lease, and then: ttl ms, retention ms of the fence or 0, the token
--      on a node of a quorum or ""
-- reply of a lease 1 renewed · 0 nobody holds the lock · -1 others do, or the error;
--      several leases give a list of these, in which an error is a string: some
--      clients discard a list that contains an error
local leases = #ARGV - 3
local ttl, retention, agreed = tonumber(ARGV[leases + 1]), ARGV[leases + 2], ARGV[leases + 3]

-- A last token that somebody has broken, or that is so large that none can follow, is left as it
-- is: a renewal draws no token, so that is no reason for a lease to end.
local function keep_token(fence)
  arm(fence, tonumber(retention))
  if agreed == '' then
    return
  end
  local read, last = pcall(last_token, fence)
  if read and last < tonumber(agreed) then
    set_token(fence, agreed, retention)
  end
end

-- Says that a lease is gone. A server that takes no writes must not say so: what it knows
-- may be from another time. That concerns all leases, so the error is raised.
local function gone(record, reply)
  if write_nothing(record) then
    redis.call('HDEL', record, '')
  end
  return reply
end

-- What goes wrong with one lease must not keep the others from being renewed, so
-- renew(record, id) returns errors, and raises only those that all leases would meet.
local function renew_each(renew)
  local each, replies = #KEYS / leases, {}
  for i = 1, leases do
    local reply = renew(KEYS[each * (i - 1) + 1], ARGV[i])
    if reply == 1 and retention ~= '0' then
      keep_token(KEYS[each * i])
    end
    if leases == 1 then
      return reply
    end
    replies[i] = failed(reply) and reply.err or reply
  end
  return replies
end
