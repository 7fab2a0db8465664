-- Counts an event of one delivery, as runregistry.Delivery.Apply does.
--
-- KEYS  run, operation
-- ARGV  event: 1 opened, 2 done, 3 broke early, 4 broke late
-- says  ok | gone
--
-- Sent twice: the operation is remembered and not counted again.
local run, op = key(), key()
local event = arg()

local h = redis.call('HMGET', run, 'w', 'xr', 'dp', 'do')
if not h[1] or past(h[2]) then return say('gone') end
if not once(op) then return say('ok') end
local pending, open = tonumber(h[3]), tonumber(h[4])
local less = function(n) return int(math.max(n - 1, 0)) end
if event == '1' then
  redis.call('HSET', run, 'dp', less(pending), 'do', int(open + 1), 'dh', '1')
elseif event == '2' then
  redis.call('HSET', run, 'do', less(open))
elseif event == '3' then
  redis.call('HSET', run, 'dp', less(pending), 'de', '1')
else
  redis.call('HSET', run, 'do', less(open), 'dx', '1')
end
redis.call('HINCRBY', run, 'dg', 1)
return say('ok')
