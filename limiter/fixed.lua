-- Charges a fixed window. One key, one atomic step.
--
-- KEYS[1]  the counter: the amount consumed, expiring at the window's end
-- ARGV[1]  cost, an integer from 0 to 2^53-1; 0 reads and writes nothing
-- ARGV[2]  length of a window opened by this charge, milliseconds
-- ARGV[3]  limit above which a charge is not added, or -1 to add always
--
-- Returns {consumed before this charge, milliseconds to the window's end}. The caller
-- decides; for a key without a window that is {0, ARGV[2]}.
--
-- A settlement adds what was admitted elsewhere, and may be sent any number of times:
-- KEYS[2]  the name of its sender with the last settlement that it made, expiring with
--          the window
-- ARGV[4]  the settlement: it is made unless KEYS[2] holds this already
-- It returns a third integer, 1 if it was made now and 0 if it was before.
--
-- Numbers are doubles here: everything stays at or below 2^53-1, where they are exact,
-- and what is written is either the caller's text or INCRBY's, never a number formatted
-- by Lua, which has an exponent from 1e14 on.
local MAX = 9007199254740991
local MAX_TEXT = '9007199254740991'

local cost = tonumber(ARGV[1])
local limit = tonumber(ARGV[3])
local ttl = redis.call('PTTL', KEYS[1])
local consumed

-- A value that this script cannot have written is not a counter: no expiry, not a
-- number, another type. Counting starts afresh and overwrites it.
if ttl >= 0 then
  local held = redis.pcall('GET', KEYS[1])
  if type(held) == 'string' then
    if held == '0' or string.find(held, '^[1-9]%d*$') then
      consumed = math.min(tonumber(held), MAX)
    end
  elseif type(held) == 'table' and held.err and not string.find(held.err, 'WRONGTYPE', 1, true) then
    return held
  end
end

local made = 0
if KEYS[2] then
  if redis.call('GET', KEYS[2]) == ARGV[4] then
    cost = 0
  else
    made = 1
    redis.call('SET', KEYS[2], ARGV[4], 'PX', consumed and math.max(ttl, 1) or ARGV[2])
  end
end

if not consumed then
  if cost > 0 then
    local add = ARGV[1]
    if limit >= 0 and cost > limit then
      add = '0'
    end
    redis.call('SET', KEYS[1], add, 'PX', ARGV[2])
  end
  return {0, tonumber(ARGV[2]), KEYS[2] and made}
end

if cost > 0 and not (limit >= 0 and consumed + cost > limit) then
  if consumed + cost > MAX then
    redis.call('SET', KEYS[1], MAX_TEXT, 'PX', math.max(ttl, 1))
  else
    redis.call('INCRBY', KEYS[1], ARGV[1])
  end
end
return {consumed, ttl, KEYS[2] and made}
