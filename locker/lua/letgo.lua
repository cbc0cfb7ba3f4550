-- Ends a hold or an attempt at one, and grants the lock to those who can have it
-- now. If it is quiet and ends nothing, it tells nobody.
local function let_go(id, trusted, life, reservation, quiet)
  local kind = kind_of(KEYS[1])
  if failed(kind) then
    return kind
  end
  local refused = remember(KEYS[5], life)
  if refused then
    return refused
  end
  local queue = not no_queue(KEYS[3], KEYS[4])
  if queue and reservation ~= '' then
    forget(KEYS[3], KEYS[4], reservation)
  end
  local held, left = false, false
  local now = now_us() / 1000
  if kind == 'x' or kind == 'rw' then
    held = alive(KEYS[1], id, now)
    left = drop(KEYS[1], id, now)
  elseif kind then
    return write_nothing(KEYS[4]) or -1
  end
  if queue and (held or not quiet) then
    pass_on(KEYS[1], KEYS[2], KEYS[3], KEYS[4], trusted == '1')
  end
  if held then
    return 1
  end
  return write_nothing(KEYS[4]) or left and -1 or 0
end
