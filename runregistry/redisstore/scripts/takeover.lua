-- Makes an instance the owner of a run whose lease has expired (promise 5).
--
-- KEYS  run, leases
-- ARGV  epoch that must stand; token of this attempt; instance; lease (ms);
--       verb; channel
-- says  ok, new epoch | live | settled | gone
--
-- Sent twice: the second finds its own token.
local run, leases = key(), key()
local epoch, token, instance, lease, verb, channel = arg(), arg(), arg(), num(), arg(), arg()

local h = redis.call('HMGET', run, 'e', 's', 'dl', 'tk', 'xr')
if not h[1] or past(h[5]) then return say('gone') end
if h[4] == token then return say('ok', h[1]) end
if tonumber(h[2]) >= 5 then return say('settled') end
if h[1] ~= epoch or not past(h[3]) then return say('live') end
local new = int(tonumber(epoch) + 1)
redis.call('HSET', run, 'e', new, 'o', instance, 'dl', int(ms + lease), 'tk', token)
redis.call('ZADD', leases, int(ms + lease), string.match(run, '[^:]*$'))
redis.call(verb, channel, 'C')
return say('ok', new)
