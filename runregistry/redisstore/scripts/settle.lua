-- Ends a run: state, snapshot, freed claims and retention clocks change
-- together, and the first finisher wins (promise 4).
--
-- KEYS  claims (take_claims), [upstream's ids]
-- ARGV  claims; epoch that must stand or ''; last frame that must stand;
--       change; end; upstream; verb; channel
-- says  ok | gone | fenced | stale (look again)
--
-- Sent twice: the second compares unequal, and whoever sent it reads its own
-- token there.
local c = take_claims()
local epoch, last, change, e, upstream = arg(), arg(), take_change(), take_end(), take_upstream()
local verb, channel = arg(), arg()

local h = redis.call('HMGET', c.run, 'w', 'e', 'q', 'xr')
if not h[1] or past(h[4]) then return say('gone') end
if epoch ~= '' and h[2] ~= epoch then return say('fenced') end
if h[1] ~= change.was or h[3] ~= last then return say('stale') end
rewrite(c.run, change)
move_upstream(upstream, c.id)
finish(c, e)
redis.call(verb, channel, 'C')
call_next(c, verb)
return say('ok')
