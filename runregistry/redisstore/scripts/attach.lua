-- Counts one more delivery and reader of a run that a request repeats
-- (promises 1 and 10).
--
-- KEYS  run, readers, operation
-- ARGV  token of the record that must stand or ''; generation of the
--       deliveries that must stand or ''; instance; readers there; their
--       stamp; lease (ms)
-- says  ok, fields of the run | gone | stale (look again)
--
-- Sent twice: the operation is remembered and not counted again.
local run, readers, op = key(), key(), key()
local token, generation = arg(), arg()
local instance, n, stamp, lease = arg(), num(), num(), num()

local h = redis.call('HMGET', run, 'w', 'dg', 'xr')
if not h[1] or past(h[3]) then return say('gone') end
if redis.call('EXISTS', op) == 0 then
  if token ~= '' and h[1] ~= token then return say('stale') end
  if generation ~= '' and h[2] ~= generation then return say('stale') end
end
if once(op) then
  redis.call('HINCRBY', run, 'dp', 1)
  redis.call('HINCRBY', run, 'dg', 1)
  redis.call('HSET', run, 'de', '0', 'dx', '0')
end
set_readers(run, readers, instance, n, stamp, lease)
return say('ok', unpack(redis.call('HGETALL', run)))
