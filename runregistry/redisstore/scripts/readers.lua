-- Says how many readers of a run an instance has (promise 10).
--
-- KEYS  run, readers
-- ARGV  instance; readers there, -1 to change nothing; their stamp; lease (ms);
--       verb; channel
-- says  ok, readers of all other instances, then as read.lua: state, first, last,
--       final, deadline of frames, deadline of record, revision, epoch |
--       gone
--
-- Sent twice: the number is absolute, and the stamp keeps calls in order.
local run, readers = key(), key()
local instance, n, stamp, lease, verb, channel = arg(), num(), num(), num(), arg(), arg()

local h = redis.call('HMGET', run, 's', 'xr', 'lo', 'q', 'fs', 'xf', 'br', 'g', 'e')
if not h[1] or past(h[2]) then return say('gone') end
local others = count_readers(readers, instance)
if n >= 0 then
  set_readers(run, readers, instance, n, stamp, lease)
  if n + others == 0 then redis.call(verb, channel, 'R') end
end
return say('ok', int(others), h[1], h[3], h[4], h[5] or '0', h[6] or '0', h[2] or '0', int(tonumber(h[7]) + tonumber(h[8])), h[9])
