-- Extends a lease. Until somebody takes the run over this succeeds even past
-- the deadline (promise 5).
--
-- KEYS  run, readers, leases
-- ARGV  epoch; lease (ms); instance
-- says  ok, state, last, readers of all other instances, milliseconds that the
--       run's key still lives, revision | settled | fenced | gone
--
-- Sent twice: the same lease is extended again.
local run, readers, leases = key(), key(), key()
local epoch, lease, instance = arg(), num(), arg()

local h = redis.call('HMGET', run, 'e', 's', 'q', 'xr', 'br', 'g')
if not h[1] or past(h[4]) then return say('gone') end
if h[1] ~= epoch then return say('fenced') end
if tonumber(h[2]) >= 5 then return say('settled') end
redis.call('HSET', run, 'dl', int(ms + lease), 'o', instance)
redis.call('ZADD', leases, int(ms + lease), string.match(run, '[^:]*$'))
return say('ok', h[2], h[3], int(count_readers(readers, instance)), int(redis.call('PTTL', run)), int(tonumber(h[5]) + tonumber(h[6])))
