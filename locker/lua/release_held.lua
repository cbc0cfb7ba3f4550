-- The roads that are nearly always taken otherwise: nobody waits, or the lock is granted
-- to the first waiter.
if mine and not first then
  return freed()
elseif mine then
  local e = heir(first)
  local token = e and e.mode == 'm' and draw(e)
  if token and redis.pcall('SET', KEYS[1], 'gl1|m|' .. e.id .. '|' .. token .. '|' .. e.ttl .. '|' .. e.tail, 'PX', e.lease).ok then
    return granted(first, e, token)
  end
end

