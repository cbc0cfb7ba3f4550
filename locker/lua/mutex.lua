-- A mutex is the string "gl1|m|<id>|<token>|<ttl>|<label>|<metadata>".
local function parse(value)
  local id, token, ttl = string.match(value, '^gl1|m|(%x+)|(%d+)|(%d+)|[^|]*|')
  if id and #id == 32 then
    return id, token, ttl
  end
end

-- Returns the string at key, or false, or 0 for a value of another type (which is
-- no mutex), or an error. An error means that nothing is known; it must be returned to
-- the caller.
local function read(key)
  local value = redis.pcall('GET', key)
  if wrong_type(value) then
    return 0
  end
  return value
end

local function held_by(value, id)
  return string.sub(value, 1, 7 + #id) == 'gl1|m|' .. id .. '|'
end

local function write(key, id, token, ttl, tail, lease)
  return redis.pcall('SET', key, 'gl1|m|' .. id .. '|' .. token .. '|' .. ttl .. '|' .. tail, 'PX', lease)
end
