-- For the scripts that look for a lock at a node of a quorum. Where the node is younger than the
-- longest lease (ms), as its marker says, and so may have forgotten one, the reply is wrapped in
-- another: {-5, ms left, reply}. Unlike quarantine, this writes nothing.
local function unless_young(reply, marker, longest)
  if not marker or failed(reply) then
    return reply
  end
  local born = born_at(marker)
  local age = born and now_us() / 1000 - born or 0
  if age < tonumber(longest) then
    return {-5, math.ceil(longest - age), reply}
  end
  return reply
end

