-- Stores frames and progress in one step (promises 2, 3 and 5).
--
-- KEYS  run, frames, [upstream's ids]
-- ARGV  epoch; number of the last frame before the batch; number of frames;
--       safety (ms); verb; channel; upstream's position after the batch or '';
--       1 to put lost frames back; 1 with progress: change, upstream; then the
--       frames
-- says  ok, last, state, revision, first, number of frames stored, their time
--       (ms) | gap, last | settled, last | stale (look again) | queued | fenced
--       | gone
--
-- Sent twice: the frames are known by their numbers, and the change compares
-- unequal.
local run, frames = key(), key()
local epoch, after, n, ttl, verb, channel, position = arg(), num(), num(), num(), arg(), arg(), arg()
local again = arg() == '1'
local change, upstream
if arg() == '1' then change, upstream = take_change(), take_upstream() end

local h = redis.call('HMGET', run, 'e', 's', 'q', 'w', 'lo', 'rb', 'lf', 'lb', 'br', 'g', 'y', 'mf', 'xr')
if not h[1] or past(h[13]) then return say('gone') end
local state, last, first = tonumber(h[2]), tonumber(h[3]), tonumber(h[5])
if h[1] ~= epoch then return say('fenced') end
if state >= 5 then return say('settled', int(last)) end
if state == 1 then return say('queued') end
if change and h[4] ~= change.was then return say('stale') end
local open = state ~= 4 or again
if open and after > last then return say('gap', int(last)) end

if open and position ~= '' then redis.call('HSET', run, 'po', position) end

local stored, grown = 0, tonumber(h[10])
local parts = {}
if open and n > last - after then
  local held, all, largest = tonumber(h[6]), tonumber(h[11]), tonumber(h[12])
  local begin, size = last - after, 0
  for i = begin + 1, n do
    local data = ARGV[read + i]
    last = last + 1
    redis.call('XADD', frames, '0-' .. int(last), 'a', int(ms), 'd', data)
    size = size + #data
    largest = math.max(largest, #data)
  end
  stored, held, all, grown = n - begin, held + size, all + size, grown + 1
  if first == 0 then
    first = 1
    redis.call('HSET', run, 't1', int(ms))
  end
  if redis.call('PTTL', frames) < 0 then redis.call('PEXPIRE', frames, int(ttl)) end
  local most, bytes = tonumber(h[7]), tonumber(h[8])
  local function over() return last > first and (most > 0 and last - first + 1 > most or bytes > 0 and held > bytes) end
  local oldest = first
  while over() do
    local entries = redis.call('XRANGE', frames, '0-' .. int(first), '+', 'COUNT', 8)
    for _, entry in ipairs(entries) do
      if not over() then break end
      held, first = held - #entry[2][4], first + 1
    end
    if #entries == 0 then break end
  end
  if first > oldest then redis.call('XTRIM', frames, 'MINID', '0-' .. int(first)) end
  redis.call('HSET', run, 'q', int(last), 'y', int(all), 'rb', int(held), 'mf', int(largest), 'lo', int(first),
    'g', int(grown), 'ta', int(ms))
  if size <= 4096 then
    for i = begin + 1, n do
      parts[#parts + 1] = #ARGV[read + i] .. ':'
      parts[#parts + 1] = ARGV[read + i]
    end
  end
end
local base = h[9]
if change then
  rewrite(run, change)
  move_upstream(upstream, string.match(run, '[^:]*$'))
  state, base = tonumber(change.state), change.revision
end
local revision = int(tonumber(base) + grown)
if stored > 0 then
  local head = {'F', int(last - stored + 1), int(stored), int(ms), int(state), revision, int(first)}
  redis.call(verb, channel, table.concat(head, ' ') .. '\n' .. table.concat(parts))
elseif change then
  redis.call(verb, channel, 'C')
end
return say('ok', int(last), int(state), revision, int(first), int(stored), int(ms))
