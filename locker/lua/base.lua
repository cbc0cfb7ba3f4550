-- Shared by the scripts below; docs/format.md describes what they store.
local function failed(value)
  return type(value) == 'table' and value.err ~= nil
end

local function wrong_type(value)
  return failed(value) and string.find(value.err, 'WRONGTYPE', 1, true)
end

-- Ends the script: a key of ours holds something that no version has written, so
-- nothing can be said about the lock. The client knows the text.
local function broken(what)
  error('GL1FOREIGN ' .. what, 0)
end

-- Returns the last fencing token that was granted, or 0. Numbers beyond 2^53 are not
-- exact, and the next one would not be larger.
local function last_token(key)
  local last = tonumber(redis.call('GET', key) or '0')
  if not last or not (last >= 0 and last < 9007199254740991) then
    broken('fencing token')
  end
  return last
end

-- Reports whether one of these texts is in the error that a command failed with.
local function met(value, texts)
  for _, text in ipairs(failed(value) and texts or {}) do
    if string.find(value.err, text, 1, true) then
      return true
    end
  end
  return false
end

-- Reports whether the server takes no writes from anybody: because it is a replica, as a
-- former master is; because it has to protect its data; or because it is cut off from its
-- Cluster and configured to allow reads all the same, for which there is no error code. The
-- caller must be told, and look for the master.
local function unwritable(value)
  return met(value, {'READONLY', 'MISCONF', 'NOREPLICAS', 'while the cluster is down'})
end

-- Reports whether a command failed because of that, or because the user must not run it. The
-- caller must be told of either. Where only memory is short, a script goes on without some of its
-- writes.
local function denied(value)
  return unwritable(value) or met(value, {'NOPERM', 'ACL failure', 'user executing the script'})
end

-- Returns an error if the server takes no writes, for a script that has come to its end
-- without a write of its own. The write that is tried here changes nothing.
local function write_nothing(key)
  local written = redis.pcall('HDEL', key, '')
  return unwritable(written) and written or nil
end

-- Renewing and extending only lengthen: a duplicate that arrives late must not
-- shorten what a newer request has granted. One command is enough from Redis 7.0 on,
-- except for a key that has lost its TTL, which GT takes for the longest of all.
-- Returns true if the key had lost its TTL, which may have been longer than this one.
local has_gt = (redis.REDIS_VERSION_NUM or 0) >= 0x070000
local function arm(key, ttl)
  if has_gt and redis.call('PEXPIRE', key, ttl, 'GT') == 1 then
    return
  end
  local left = redis.call('PTTL', key)
  if left < ttl then
    redis.call('PEXPIRE', key, ttl)
  end
  return left == -1
end

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Lua prints large numbers with 14 digits only; %.0f is exact up to 2^53, and %d is too
-- small on a 32-bit server.
local function digits(n)
  return string.format('%.0f', n)
end

-- Writes the last token, to be kept for as long as this grant or an earlier one asks for: the
-- earlier lease may live on, as where its owner re-enters with a shorter one. (Where the lock
-- was free or is handed over, no lease lives on, so the short roads need not ask.)
local function set_token(key, token, retention)
  return redis.pcall('SET', key, token, 'PX', digits(math.max(tonumber(retention), redis.call('PTTL', key))))
end

-- Draws a fencing token. Without retention the lock has none, which is '0'. The token
-- is drawn before the record is written: should that write fail, a token is skipped and
-- nothing else has happened. Returns nil and the error where memory is short.
--
-- The nodes of a quorum are offered the same number, so that they agree. A node does not take it
-- as it is where it lies further from the node's own clock than slack. (No lease is passed along
-- at a node.)
--
-- Where no last token is known, it may have been lost a moment ago. A lock that goroutines pass
-- along has tokens that run 2 ms ahead of the clock (see turn.lua), so the first token runs ahead
-- of these.
local function next_token(key, retention, offer, slack)
  if retention == '0' then
    return '0'
  end
  local last, now = last_token(key), now_us()
  if offer then
    now = math.min(math.max(tonumber(offer), now - slack), now + slack)
  elseif last == 0 then
    now = now + 4000
  end
  local token = digits(math.max(last + 1, now))
  local set = set_token(key, token, retention)
  if failed(set) then
    return nil, set
  end
  return token
end

-- Raises the last token to one that was granted by a quorum.
local function raise_token(key, retention, token)
  if last_token(key) < tonumber(token) then
    return set_token(key, token, retention)
  end
end

-- Raises the last token to one that a client wants to be granted by a quorum, or says
-- that a larger one is known. The largest token of all is agreed to as well, where it was drawn,
-- though none can follow it.
local function agree(key, retention, token)
  if redis.call('GET', key) == token then
    return {1}
  end
  local last = last_token(key)
  if last > tonumber(token) then
    return {2, digits(last)}
  end
  local err = raise_token(key, retention, token)
  return failed(err) and err or {1}
end

-- Returns since when (ms), at least, a node of a quorum has been there, as its marker says. Returns
-- nil if there is no marker; a value that no version has written, of whatever type, is none either.
local function born_at(marker)
  local text = redis.pcall('GET', marker)
  if wrong_type(text) then
    return
  elseif failed(text) then
    redis.call('GET', marker) -- which raises it
  end
  return tonumber(string.match(text or '', '^%d+$') or '')
end

-- A node of a quorum that has lost its data, or is new, may have forgotten a lease. It
-- is recognised by the lack of our marker, and takes no part until the longest lease
-- (ms) has run out. Returns for how many more ms that is, and the marker.
--
-- The marker says since when, at least, the node has been there. It is written again
-- long before its life ends, and must live for 4 times the longest lease or longer.
local function quarantine(marker, longest, life)
  local now = now_us() / 1000
  local born = born_at(marker)
  local age = born and now - born or 0
  if born and age >= longest and age < life / 2 then
    return
  elseif not born or age >= longest then
    local was = born
    born = digits(was and now - life / 4 or now)
    local set = redis.pcall('SET', marker, born, 'PX', life)
    if failed(set) and not was then
      return set
    end
  end
  if age < longest then
    return {-5, math.ceil(longest - age), type(born) == 'number' and digits(born) or born}
  end
end

-- Remembers the id of an attempt that is over, so that a request of the attempt that is still on
-- its way takes nothing. This must not stand in the way of a release: where memory is short, the
-- late request leaves a lease that lapses by itself. The mark '2' is for an id whose lease goes on
-- under another id, as long as nobody says that it is over. Returns an error if the server takes no
-- writes: then nothing has been done, and the server has to be asked again.
local function remember(over, life, mark)
  if life == '0' then
    return
  end
  local set = redis.pcall('SET', over, mark or '1', 'NX', 'PX', life)
  if set ~= false then
    return unwritable(set) and set or nil
  end
  if mark then
    arm(over, tonumber(life))
  else
    redis.pcall('SET', over, '1', 'PX', digits(math.max(tonumber(life), redis.call('PTTL', over))))
  end
end

-- Names what stands at a key where another kind of lock was expected.
local function kind_at(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' and string.sub(redis.call('GET', key), 1, 6) == 'gl1|m|' then
    return 'mutex'
  elseif kind == 'hash' then
    local locks = {x = 'reentrant lock', rw = 'read-write lock'}
    return locks[redis.call('HGET', key, 'gl1')] or kind
  end
  return kind
end

-- Returns the reply for a key where another kind of lock was expected, or an error if the server
-- takes no writes. Whether it does is tried with a key beside this one, which is not ours to write
-- to. Returns nothing if the key was that of a lock with owners whose holds have all run out: such
-- a key lives on until the longest hold that it ever had would have ended, and is deleted here.
local function foreign(key, beside)
  local kind = kind_at(key)
  local reply = {-2, kind, redis.call('PTTL', key)}
  if kind ~= 'reentrant lock' and kind ~= 'read-write lock' then
    return write_nothing(beside) or reply
  end
  local cursor, now = '0', now_us() / 1000
  repeat
    local page = redis.call('HSCAN', key, cursor, 'COUNT', 64)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local expires = tonumber(string.match(page[2][i + 1], '^%a|(%d+)|') or now + 1)
      if #page[2][i] == 32 and expires > now then
        return write_nothing(beside) or reply
      end
    end
  until cursor == '0'
  redis.call('DEL', key)
end
