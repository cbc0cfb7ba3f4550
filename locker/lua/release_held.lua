-- The roads that are taken nearly always, ahead of the script for all cases, as in
-- acquire_free: the lease is there, and nobody waits, or it is granted to the first who
-- does, who is alive and listens.
do
  local record = redis.pcall('GET', KEYS[1])
  local mine = 'gl1|m|' .. ARGV[1] .. '|'
  if type(record) == 'string' and string.sub(record, 1, #mine) == mine then
    local first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
    if not first then
      if ARGV[3] ~= '0' then
        redis.pcall('SET', KEYS[5], '1', 'PX', ARGV[3])
      end
      redis.call('DEL', KEYS[1])
      return 1
    end
    local passed, expires, seq, id, ttl, retention, channel, tail = string.match(redis.call('HGET', KEYS[4], first) or '',
      '^gl1|1|(%d)|(%d+)|(%d+)|m|(%x+)|(%d+)|(%d+)||([^|]*)|(.*)$')
    if seq then
      local t = redis.call('TIME')
      local now = t[1] * 1000000 + t[2]
      local left = expires - now / 1000
      if left >= 1 and (ARGV[2] == '0' or passed == '1' or redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0) then
        local token, drawn = '0', true
        if retention ~= '0' then
          token = string.format('%d', math.max((redis.call('GET', KEYS[2]) or 0) + 1, now))
          drawn = redis.pcall('SET', KEYS[2], token, 'PX', retention).ok
        end
        if drawn and redis.pcall('SET', KEYS[1], 'gl1|m|' .. id .. '|' .. token .. '|' .. ttl .. '|' .. tail,
          'PX', math.floor(math.min(ttl, left))).ok then
          if ARGV[3] ~= '0' then
            redis.pcall('SET', KEYS[5], '1', 'PX', ARGV[3])
          end
          redis.call('ZREM', KEYS[3], first)
          redis.call('HDEL', KEYS[4], first)
          redis.pcall('PUBLISH', channel, 'gl1|g|' .. first .. '|' .. seq .. '|' .. token)
          return 1
        end
      end
    end
  end
end

