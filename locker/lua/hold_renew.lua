-- Lengthens a hold. Never creates one.
--
-- KEYS record, fence
-- ARGV 1 id, 2 ttl ms, 3 retention ms of the fence or 0; on a node of a quorum 4 the token
-- reply 1 renewed · 0 nobody holds the lock · -1 others do
local kind = kind_of(KEYS[1])
if failed(kind) then
  return kind
elseif not kind then
  return 0
elseif kind ~= 'x' and kind ~= 'rw' then
  return -1
end
local now = now_us() / 1000
local h = alive(KEYS[1], ARGV[1], now)
if not h then
  return find(KEYS[1], now) and -1 or 0
end
local ttl = tonumber(ARGV[2])
local err = prolong(KEYS[1], ARGV[1], h, now + ttl, ttl, now)
if err then
  return err
end
if ARGV[3] ~= '0' then
  arm(KEYS[2], tonumber(ARGV[3]))
  if ARGV[4] then
    raise_token(KEYS[2], ARGV[3], ARGV[4])
  end
end
return 1
