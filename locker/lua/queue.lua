-- The queue of waiters of one lock: a sorted set of reservations, scored by the
-- time of arrival (server's µs, each later than the one before; negative, and each
-- less than the one before, for those who come before all others; 2^52 more for those
-- who come after all others), and a hash of what each of them waits for.
local after_all = 4503599627370496
--
-- An entry is "gl1|<listens>|<passed>|<until, server's ms>|<seq>|<mode>|<id>|<ttl>|
-- <retention>|<owner>|<channel>|<label>|<metadata>". seq is the score. It is new each
-- time that a reservation enters the queue, so that a waiter can tell a grant that
-- it missed from one that is in force. At a node of a quorum, and for an unfair waiter,
-- the mode is a capital letter: such waiters are not granted the lock, but told to ask
-- for it.

-- Reports whether others have written to one of these keys. Then nobody counts as waiting
-- there, and no lock is kept for that.
local function no_queue(queue, entries)
  return wrong_type(redis.pcall('ZCARD', queue)) or wrong_type(redis.pcall('HLEN', entries))
end

local function forget(queue, entries, reservation)
  redis.call('ZREM', queue, reservation)
  redis.call('HDEL', entries, reservation)
end

-- Returns nothing for an entry that is gone, and one without expires for an entry that
-- another version wrote. If a part is given, entries that do not contain it count as
-- gone.
local function entry_of(entries, reservation, part)
  local text = redis.call('HGET', entries, reservation)
  if not text or part and not string.find(text, part, 1, true) then
    return
  end
  local e = {text = text}
  e.listens, e.passed, e.expires, e.seq, e.mode, e.id, e.ttl, e.retention, e.owner, e.channel, e.tail = string.match(
    text, '^gl1|(%d)|(%d)|(%d+)|(%-?%d+)|(%a)|(%x+)|(%d+)|(%d+)|([^|]*)|([^|]*)|(.*)$')
  e.expires = tonumber(e.expires)
  return e
end

local function dead(e, now)
  return not e or e.expires and e.expires - now < 1
end

-- Returns the entry of a writer of another owner that waits at a node of a quorum, where
-- no order is kept.
local function intended(queue, entries, owner)
  local now = now_us() / 1000
  for _, reservation in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    local e = entry_of(entries, reservation, '|W|')
    if e and e.mode == 'W' and not dead(e, now) and e.owner ~= owner then
      return e
    end
  end
end

-- Reports whether a waiter's client hears nothing just now. The client may be
-- reconnecting, so its waiter is passed over once. A waiter that counts as deaf must
-- not be sent a grant: where messages come by way of a replica, it would hear the
-- grant. A Cluster counts the subscribers of one node only, and where the count cannot
-- be had, nothing is known.
local function deaf(e, trusted, me)
  if not trusted or e.listens == '0' or e.passed == '1' or e.id == me then
    return false
  end
  local count = redis.pcall('PUBSUB', 'NUMSUB', e.channel)
  return not failed(count) and count[2] == 0
end

-- How many waiters are granted the lock by one script, during which the server does
-- nothing else. The next waiter is told to ask, and its request goes on from there.
local portion = 128

-- Tells the waiter of e to ask, and returns whether it may have heard that. A waiter that
-- polls will ask.
local function asks_next(e, reservation, trusted)
  return e.listens == '0' or redis.pcall('PUBLISH', e.channel, 'gl1|w|' .. reservation) ~= 0 or not trusted
end

-- Grants the lock to those whose turn it is, a portion of them at most. turn(e) returns
-- whether it is the turn of the entry e, or nil if its waiter has to ask. take(e, lease)
-- gives the waiter the lock for lease ms, no longer than its reservation lasts, and returns
-- the fencing token, or nil if that cannot be done here. The waiter with the id me needs no
-- message. Returns the entry at which it stopped, or nothing if no waiter is left but those
-- that were passed over.
local function serve(queue, entries, trusted, me, turn, take)
  local passed, taken, now = 0, 0, nil
  while true do
    local head = redis.call('ZRANGE', queue, passed, passed + 15)
    if #head == 0 then
      return
    end
    now = now or now_us() / 1000
    for _, reservation in ipairs(head) do
      local e = entry_of(entries, reservation)
      if dead(e, now) then
        forget(queue, entries, reservation)
      elseif not e.expires then
        passed = passed + 1
      else
        local its = turn(e)
        if its == false then
          return e
        elseif deaf(e, trusted, me) then
          redis.pcall('HSET', entries, reservation, 'gl1|1|1|' .. string.sub(e.text, 9))
          passed = passed + 1
        elseif its and taken >= portion and e.id ~= me and asks_next(e, reservation, trusted) then
          return e
        else
          local token = its and take(e, math.floor(math.min(tonumber(e.ttl), e.expires - now)))
          local message = token and 'gl1|g|' .. reservation .. '|' .. e.seq .. '|' .. token or 'gl1|w|' .. reservation
          if token then
            taken = taken + 1
            forget(queue, entries, reservation)
          end
          if e.listens == '1' and e.id ~= me then
            redis.pcall('PUBLISH', e.channel, message)
          end
          if not token then
            if e.mode ~= 'R' then
              return e
            end
            passed = passed + 1 -- The readers at a node of a quorum are told together.
          end
        end
      end
    end
  end
end
