-- Forgets a run that has ended. Its key, if it still answers for it, stays
-- reserved.
--
-- KEYS  claims (take_claims), operation, mark of the deletion, [upstream's id]
-- ARGV  claims; token that must stand; milliseconds that the key stays
--       reserved; 1 with upstream's id; verb; channel
-- says  ok | gone | stale (look again)
--
-- Sent twice: the operation is remembered.
local c, op, mark = take_claims(), key(), key()
local was, reserved = arg(), num()
local upstream
if arg() == '1' then upstream = key() end
local verb, channel = arg(), arg()

if redis.call('EXISTS', op) == 1 then return say('ok') end
local h = redis.call('HMGET', c.run, 'w', 'xr')
if not h[1] or past(h[2]) then return say('gone') end
if h[1] ~= was then return say('stale') end
once(op)
if c.key and redis.call('GET', c.key) == c.id then
  if reserved > 0 then
    redis.call('SET', c.key, '!', 'PX', int(reserved))
  else
    redis.call('DEL', c.key)
  end
end
if upstream and redis.call('GET', upstream) == c.id then redis.call('DEL', upstream) end
leave_index(c.list, c.listed, c.id)
if c.dialogue ~= '' then
  leave_index(c.order, c.ordered, c.id)
  for _, name in ipairs(c.names) do drop_name(name, c.member) end
end
redis.call('DEL', c.run, c.frames, c.readers)
-- An owner that was frozen when the run was taken from it must not restore it.
redis.call('SET', mark, '1', 'PX', 3600000)
redis.call(verb, channel, 'C')
return say('ok')
