-- Takes the mutex if it is free and nobody has been waiting for longer, or takes a
-- place in the queue. Asked again under the same id it answers "yours" and arms the
-- lease again. An unfair caller takes it whenever it is free, and waits behind all fair
-- ones.
--
-- KEYS record, fence, queue, entries, over
-- ARGV 1 id, 2 "m", or "M" if unfair, 3 "", 4 "<label>|<metadata>", 5 ttl ms, 6 retention ms of the
--      fence, 0 without; 7 reservation or "", 8 channel or "" if the waiter polls,
--      9 reservation ms, 10 whether the count of PUBLISH can be trusted 0|1, 11 ""
-- on a node of a quorum also KEYS marker and ARGV 12 the token that is offered, 13 how
--      far (µs) it may lie from the clock, 14 the longest lease (ms), 15 life of the
--      marker (ms). Nobody is granted the lock there by another's release; the first
--      waiter is told to ask.
-- reply {1, token} held, from some nodes {1, token, marker} · {0, pttl, record, seq or "", 1 if the record
--      was given back its TTL} held by another · {-1} this id
--      was given up · {-2, what, pttl} another kind of value · {-3} a foreign value that
--      never expires · {-5, ms, marker} the node does
--      not take part yet
local id, ttl, reservation = ARGV[1], tonumber(ARGV[5]), ARGV[7]

local value = read(KEYS[1])
if failed(value) then
  return value
elseif value == 0 then
  local reply = foreign(KEYS[1], KEYS[4])
  if reply then
    return reply
  end
  value = false
end

local function held()
  if reservation ~= '' then
    forget(KEYS[3], KEYS[4], reservation)
  end
  local _, token = parse(value)
  return {1, token}
end

local ordered = not ARGV[12]
local fair = ordered and ARGV[2] == 'm'
if not ordered then
  local wait = quarantine(KEYS[6], tonumber(ARGV[14]), tonumber(ARGV[15]))
  if wait then
    return wait
  end
end

if value and held_by(value, id) then
  arm(KEYS[1], ttl)
  return held()
elseif redis.call('EXISTS', KEYS[5]) == 1 then
  return {-1}
end

local seq, refused = '', nil
local function wait()
  if reservation ~= '' and seq == '' then
    seq, refused = enqueue(KEYS[3], KEYS[4], reservation, tonumber(ARGV[9]),
      {mode = fair and 'm' or 'M', id = id, ttl = ARGV[5], retention = ARGV[6], owner = '', channel = ARGV[8], tail = ARGV[4]},
      false, ordered and not fair)
  end
  return refused
end

if fair and not value and redis.call('EXISTS', KEYS[3]) == 1 then
  -- The last lease ran out unnoticed.
  if wait() then
    return refused
  end
  local holder = hand_over(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[10] == '1', id)
  if holder then
    value = read(KEYS[1])
    if holder == id then
      arm(KEYS[1], ttl)
      return held()
    end
  end
end

if not value then
  local token, short = next_token(KEYS[2], ARGV[6], ARGV[12], tonumber(ARGV[13] or 0))
  if not token then
    return short
  end
  local written = write(KEYS[1], id, token, ARGV[5], ARGV[4], ttl)
  if failed(written) then
    return written
  end
  value = read(KEYS[1])
  return held()
end

local left, healed = redis.call('PTTL', KEYS[1]), 0
if left == -1 then
  local _, _, lease = parse(value)
  if not lease then
    return write_nothing(KEYS[4]) or {-3}
  end
  -- Ours, and somebody took its TTL away. The holder may be alive: it gets the
  -- whole of its lease once more, in which it can renew.
  left, healed = math.max(tonumber(lease), ttl), 1
  redis.call('PEXPIRE', KEYS[1], left)
end
if reservation == '' and ordered then
  local unwritten = write_nothing(KEYS[4])
  if unwritten then
    return unwritten
  end
end
return wait() or {0, left, string.sub(value, 1, 8192), seq, healed} -- longer than any record of ours
