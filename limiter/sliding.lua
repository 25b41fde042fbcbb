-- Charges a sliding window. One key, one atomic step.
--
-- KEYS[1]  the counter: "<start> <length> <current> <previous>", four decimal integers:
--          start and length of the current window in microseconds, what was consumed in
--          it, and in the window before; expiring when both no longer matter
-- ARGV[1]  cost, an integer from 0 to 2^53-1; 0 writes nothing
-- ARGV[2]  length of a window opened by this charge, microseconds, at most 2^51
-- ARGV[3]  limit
--
-- Returns {1 if the charge fits, else 0, current before this charge, previous, start,
-- length, the server's time in microseconds}.
--
-- A settlement adds what was admitted elsewhere, whether it fits or not, and may be sent
-- any number of times:
-- KEYS[2]  the name of its sender with the last settlement that it made, expiring with
--          the counter
-- ARGV[4]  the settlement: it is made unless KEYS[2] holds this already
-- ARGV[5]  the start of the window that it belongs to, microseconds
-- It returns the state after it, with 1 first.
--
-- The arithmetic is that of slidingWindow in sliding.go, operation by operation.
local MAX = 9007199254740991
local MAX_LENGTH = 2251799813685248

local cost = tonumber(ARGV[1])
local window = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local start, length, current, previous

-- A value that this script cannot have written is not a counter: counting starts afresh.
-- A start somewhat ahead is a clock that was set back; one ahead by windows is not.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' then
  local s, l, c, p = string.match(held, '^(%d+) ([1-9]%d*) (%d+) (%d+)$')
  s, l, c, p = tonumber(s), tonumber(l), tonumber(c), tonumber(p)
  if s and l <= MAX_LENGTH and s <= now + l and c <= MAX and p <= MAX then
    start, length, current, previous = s, l, c, p
  end
elseif type(held) == 'table' and held.err and not string.find(held.err, 'WRONGTYPE', 1, true) then
  return held
end

if not start or now >= start + length then
  local opened = now - now % window
  local carried = 0
  if start and start + length > opened - window then
    carried = current
  end
  start, length, current, previous = opened, window, 0, carried
end

local remaining = math.min(start + length - now, length)

if KEYS[2] then
  if redis.call('GET', KEYS[2]) ~= ARGV[4] then
    -- What belongs to a window that ended counts as the previous one's, or not any more.
    local at = tonumber(ARGV[5])
    if at >= start then
      current = math.min(current + cost, MAX)
    elseif at >= start - length then
      previous = math.min(previous + cost, MAX)
    end
    local px = string.format('%.0f', math.ceil((remaining + length) / 1000))
    redis.call('SET', KEYS[2], ARGV[4], 'PX', px)
    redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f %.0f', start, length, current, previous), 'PX', px)
  end
  return {1, current, previous, start, length, now}
end

local left = limit - current - cost
local fits = left >= 0 and math.min(previous, limit) * remaining / length <= left

if fits and cost > 0 then
  redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f %.0f', start, length, current + cost, previous),
    'PX', string.format('%.0f', math.ceil((remaining + length) / 1000)))
end
return {fits and 1 or 0, current, previous, start, length, now}
