-- The road that is taken nearly always, ahead of the script for all cases, as in
-- acquire_free: the lease is there, and nobody waits.
do
  local record = redis.pcall('GET', KEYS[1])
  local mine = 'gl1|m|' .. ARGV[1] .. '|'
  if type(record) == 'string' and string.sub(record, 1, #mine) == mine and redis.call('EXISTS', KEYS[3]) == 0 then
    if ARGV[3] ~= '0' then
      redis.pcall('SET', KEYS[5], '1', 'PX', ARGV[3])
    end
    redis.call('DEL', KEYS[1])
    return 1
  end
end

