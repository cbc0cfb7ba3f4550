-- The road of nearly everyone, ahead of the script for all cases, as in acquire_free: the
-- lease is there, nobody waits, and nothing has to be remembered. Nobody counts as waiting
-- where others have written to the queue's key, and the lock is not kept for that.
local record = redis.pcall('GET', KEYS[1])
local mine = 'gl1|m|' .. ARGV[1] .. '|'
mine = type(record) == 'string' and string.sub(record, 1, #mine) == mine
local head = mine and redis.pcall('ZRANGE', KEYS[3], 0, 0) or {}
if head.err and not string.find(head.err, 'WRONGTYPE', 1, true) then
  return head
end
local first = head[1]
if mine and not first and ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
  return 1
end

