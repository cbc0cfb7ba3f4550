-- Takes a hold on a lock with owners where no other owner excludes it, and either
-- nobody has been waiting for longer or its owner has a hold already (to wait for those
-- who wait for that hold would be a deadlock). Otherwise it takes a place in the queue.
-- Asked again under the same id it answers "yours" and lengthens the hold.
--
-- A reader that wants to write waits before everybody else, for the other readers
-- to leave. A second such reader cannot: each would wait for the other.
--
-- KEYS record, fence, queue, entries, over
-- ARGV 1 id, 2 mode x|w|r, 3 owner, 4 "<label>|<metadata>", 5 ttl ms, 6 retention ms of
--      the fence, 0 without; 7 reservation or "", 8 channel or "" if the waiter polls,
--      9 reservation ms, 10 whether the count of PUBLISH can be trusted 0|1, 11 id of the
--      owner's hold, to which this may be a re-entry, or "" if none is known, or "-" if the
--      owner was made for this attempt and has none, or "=" if it had none a while ago, so that
--      a waiter with a place in the queue need not look for one; on a node of a quorum as
--      acquire. There a waiting writer is told, and keeps new readers out.
-- reply {1, token} held · {0, ms left, hold, seq or "", its id} another owner's hold is in the
--      way, or others wait ahead, and then there may be no hold · {-1} this id was given up ·
--      {-2, what, pttl} another kind of value · {-4, ms left, hold} another reader waits to become the writer
local id, mode, owner, ttl, reservation = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[5]), ARGV[7]
local trusted, ordered, alone = ARGV[10] == '1', not ARGV[12], ARGV[11] == '-'

local refused = refusal(KEYS[1], mode, KEYS[4])
if refused then
  return refused
end
if not ordered then
  local wait = quarantine(KEYS[6], tonumber(ARGV[14]), tonumber(ARGV[15]))
  if wait then
    return wait
  end
end
local now = now_us() / 1000

local function held(h)
  if reservation ~= '' then
    forget(KEYS[3], KEYS[4], reservation)
  end
  return {1, h.token}
end

local function mine()
  local h = alive(KEYS[1], id, now)
  return h and (prolong(KEYS[1], id, h, now + ttl, ttl, now) or held(h))
end

local reply = mine()
if reply then
  return reply
elseif redis.call('EXISTS', KEYS[5]) == 1 then
  return {-1}
end

-- Returns a hold of this owner, unless the owner is known to have none. There may be
-- thousands of other holds, so only those that name the owner are parsed. A caller that
-- enters the queue must know, since that decides where it enters.
local function find_own()
  local h = #ARGV[11] == 32 and alive(KEYS[1], ARGV[11], now)
  if h and h.owner == owner then
    return h
  elseif ARGV[11] == '=' and place_of(KEYS[3], KEYS[4], reservation, now) then
    return
  end
  local cursor, named = '0', '|' .. owner .. '|'
  repeat
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 256)
    cursor = page[1]
    for i = 2, #page[2], 2 do
      h = #page[2][i - 1] == 32 and string.find(page[2][i], named, 1, true) and hold_of(page[2][i])
      if h and h.owner == owner and h.expires > now then
        return h
      end
    end
  until cursor == '0'
end

local function take()
  -- On a quorum the nodes may have drawn smaller tokens for that hold than the one on
  -- which they then agreed.
  local within = ordered and #ARGV[11] == 32 and alive(KEYS[1], ARGV[11], now)
  local token, short = token_for(KEYS[2], mode, owner, ARGV[6], within, ARGV[12], tonumber(ARGV[13] or 0))
  if not token then
    return short
  end
  if mode == 'r' then
    tidy(KEYS[1], now) -- before there is a hold, since it may fail
  end
  local err = put(KEYS[1], id, mode, now + ttl, ttl, token, owner, ARGV[4], now)
  if err then
    return err
  end
  return held({token = token})
end

local blocked, own = look(KEYS[1], now, mode, owner)
local intent = not blocked and not ordered and mode == 'r' and intended(KEYS[3], KEYS[4], owner)
local queued = intent or ordered and redis.call('EXISTS', KEYS[3]) == 1
-- As many callers may ask as there are holds. They walk through the holds only where it
-- matters.
if alone then
  own = nil
elseif blocked and mode == 'w' or not blocked and mode == 'r' and queued then
  own = own or find_own()
end
if not blocked and (own or not queued) then
  return take()
end

local function answer(status, seq, before)
  local h = blocked or find(KEYS[1], now) or {text = '', expires = before and before.expires or now}
  return {status, math.max(math.ceil(h.expires - now), 0), h.text, seq, h.id}
end

-- Reports whether another owner that reads waits to write, and came before. Of those
-- that wait already, only the later one may be told of the deadlock.
local function reader_waits_to_write()
  local reads = {}
  each(KEYS[1], now, function(h)
    reads[h.owner] = h.owner ~= owner
  end)
  for _, waiting in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    if waiting == reservation then
      return false
    end
    local e = entry_of(KEYS[4], waiting)
    if e and e.mode and string.lower(e.mode) == 'w' and reads[e.owner] and not dead(e, now) then
      return true
    end
  end
  return false
end

local upgrade = mode == 'w' and blocked and own and own.mode == 'r'
if upgrade and reader_waits_to_write() then
  return write_nothing(KEYS[4]) or answer(-4)
end

local seq, denial = '', nil
if reservation == '' and ordered then
  denial = write_nothing(KEYS[4])
elseif reservation ~= '' then
  seq, denial = enqueue(KEYS[3], KEYS[4], reservation, tonumber(ARGV[9]),
    {mode = ordered and mode or string.upper(mode), id = id, ttl = ARGV[5], retention = ARGV[6], owner = owner, channel = ARGV[8], tail = ARGV[4]}, upgrade)
end
if denial then
  return denial
end
-- A hold may have run out unnoticed.
if ordered and (queued or not blocked) then
  local first = pass_on(KEYS[1], KEYS[2], KEYS[3], KEYS[4], trusted, id)
  -- That may have made the key a lock of another kind.
  reply = mine() or refusal(KEYS[1], mode, KEYS[4])
  if reply then
    return reply
  end
  blocked = look(KEYS[1], now, mode, owner)
  -- If this waiter is itself the first, memory was short; taking the lock tells.
  if not blocked and (not first or first.id == id) then
    return take()
  end
  return answer(0, seq, first)
end
return answer(0, seq, intent)
