-- Reads frames after a position, and where the run stood then (promise 9).
-- One frame that is larger than the page is a page; Redis never has more than
-- a few MiB of a log in its hands.
--
-- KEYS  run, frames
-- ARGV  position; bytes of the page; frames of the page
-- says  ok, state, first, last, final, deadline of frames, deadline of record,
--       revision, epoch, number of the first frame read, then time (ms) and
--       data of each | gone
local run, frames = key(), key()
local after, limit, most = num(), num(), num()

local h = redis.call('HMGET', run, 's', 'lo', 'q', 'fs', 'xf', 'xr', 'br', 'g', 'mf', 'y', 'e')
if not h[1] or past(h[6]) then return say('gone') end
local out = say('ok', h[1], h[2], h[3], h[4] or '0', h[5] or '0', h[6] or '0', int(tonumber(h[7]) + tonumber(h[8])), h[11], '0')
local last = tonumber(h[3])
if after >= last or most == 0 then return out end
local mean, largest = math.max(tonumber(h[10]) / last, 1), math.max(tonumber(h[9]), 1)
local count = math.min(most, 2 * math.floor(limit / mean) + 1, math.max(math.floor(4194304 / largest), 1))
local entries = redis.call('XRANGE', frames, '(0-' .. int(after), '+', 'COUNT', int(count))
local size = 0
for i, entry in ipairs(entries) do
  size = size + #entry[2][4]
  if i > 1 and size > limit then break end
  if i == 1 then out[11] = string.sub(entry[1], 3) end
  out[#out + 1] = entry[2][2]
  out[#out + 1] = entry[2][4]
end
return out
