-- As acquire_held, for locks with owners: a single hold, of another owner, excludes this
-- one and whoever waits first. KEYS, ARGV and the reply are those of the script.
if ARGV[7] ~= '' and not ARGV[12] and redis.pcall('HLEN', KEYS[1]) == 3 and redis.call('EXISTS', KEYS[5]) == 0 then
  local record, t = redis.call('HGETALL', KEYS[1]), redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  local kind, id, hold
  for i = 1, 5, 2 do
    if record[i] == 'gl1' then
      kind = record[i + 1]
    elseif #record[i] == 32 and record[i] ~= ARGV[1] then
      id, hold = record[i], record[i + 1]
    end
  end
  local mode, expires, owner = string.match(hold or '', '^([wx])|(%d+)|%d+|%d+|([^|]*)|')
  local left = mode and expires - now / 1000
  if left and left > 0 and owner ~= ARGV[3] and kind == (ARGV[2] == 'x' and 'x' or 'rw') and kept_out(0, owner, now) then
    local seq = enter(now)
    if seq then
      return {0, math.ceil(left), hold, seq, id}
    end
  end
end

