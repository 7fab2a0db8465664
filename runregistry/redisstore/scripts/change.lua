-- Moves a run that goes on: the dispatch intent, a Stop (promises 4 and 5).
--
-- KEYS  run
-- ARGV  epoch that must stand or ''; change; verb; channel; 1 to tell the
--       owner, and the prefix of its channel
-- says  ok | gone | fenced | stale (look again)
--
-- Sent twice: the second compares unequal, and whoever sent it reads its own
-- token there.
local run = key()
local epoch, change, verb, channel, tell, prefix = arg(), take_change(), arg(), arg(), arg(), arg()

local h = redis.call('HMGET', run, 'w', 'e', 'o', 'xr')
if not h[1] or past(h[4]) then return say('gone') end
if epoch ~= '' and h[2] ~= epoch then return say('fenced') end
if h[1] ~= change.was then return say('stale') end
rewrite(run, change)
redis.call(verb, channel, 'C')
if tell == '1' and h[3] then redis.call('PUBLISH', prefix .. h[3], string.match(run, '[^:]*$')) end
return say('ok')
