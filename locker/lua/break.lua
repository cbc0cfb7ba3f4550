-- Ends all leases on a lock, whoever holds them. Deletes only what is provably a
-- lock of ours. Who waits first is told to ask; it may be of any kind.
--
-- KEYS record, queue, entries
-- on a node of a quorum also KEYS marker and ARGV 1 the longest lease (ms)
-- reply {1, record as GET or HGETALL gives it, pttl, server's ms} released · {0} there
--      was no lock · {-2, type, pttl} something foreign · {-5, ms, one of these} the node
--      may have forgotten a lease
local function break_it()
  local kind = redis.call('TYPE', KEYS[1]).ok
  local value, left = nil, redis.call('PTTL', KEYS[1])
  if kind == 'none' then
    return {0}
  elseif kind == 'string' then
    value = redis.call('GET', KEYS[1])
    if not parse(value) then
      return {-2, kind, left}
    end
  else
    if kind_at(KEYS[1]) == kind then
      return {-2, kind, left}
    end
    value = redis.call('HGETALL', KEYS[1])
  end
  redis.call('DEL', KEYS[1])
  serve(KEYS[2], KEYS[3], false, '', function() return nil end)
  return {1, value, left, digits(now_us() / 1000)}
end
return unless_young(break_it(), KEYS[4], ARGV[1])
