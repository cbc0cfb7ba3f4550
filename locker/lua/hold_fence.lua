-- The second step of a grant by a quorum, see fence.lua.
--
-- KEYS record, fence
-- ARGV 1 id, 2 token, 3 retention ms
-- reply {1} agreed · {0} the hold no longer exists · {2, token} a larger one
local kind = kind_of(KEYS[1])
if failed(kind) then
  return kind
elseif kind ~= 'x' and kind ~= 'rw' or not alive(KEYS[1], ARGV[1], now_us() / 1000) then
  return {0}
end
return agree(KEYS[2], ARGV[3], ARGV[2])
