-- Stores the dispatch intent of a run that waits in line, and with it gives it
-- the conversation, if nobody stands before it any more (promise 1).
--
-- KEYS  run, holders of its conversation
-- ARGV  epoch that must stand; change; verb; channel
-- says  ok | waits | gone | fenced | stale (look again)
--
-- Sent twice: the second compares unequal, and whoever sent it reads its own
-- token there.
local run, holders = key(), key()
local epoch, change, verb, channel = arg(), take_change(), arg(), arg()

local h = redis.call('HMGET', run, 'w', 'e', 'xr')
if not h[1] or past(h[3]) then return say('gone') end
if h[2] ~= epoch then return say('fenced') end
if h[1] ~= change.was then return say('stale') end
if redis.call('ZRANGE', holders, 0, 0)[1] ~= string.match(run, '[^:]*$') then return say('waits') end
rewrite(run, change)
redis.call(verb, channel, 'C')
return say('ok')
