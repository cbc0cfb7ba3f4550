-- The roads that are taken nearly always, ahead of the script for all cases, as in
-- acquire_free: the lease is there, and nobody waits, or it is granted to the first who
-- does.
do
  local record = redis.pcall('GET', KEYS[1])
  local mine = 'gl1|m|' .. ARGV[1] .. '|'
  if type(record) == 'string' and string.sub(record, 1, #mine) == mine then
    local first, e = heir()
    if not first then
      return freed()
    end
    local token = e and e.mode == 'm' and draw(e)
    if token and redis.pcall('SET', KEYS[1], 'gl1|m|' .. e.id .. '|' .. token .. '|' .. e.ttl .. '|' .. e.tail, 'PX', e.lease).ok then
      return granted(first, e, token)
    end
  end
end

