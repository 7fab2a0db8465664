-- Gives everything that an active run has another long time to live
-- (promise 8). Leases are renewed often and this seldom.
--
-- KEYS  claims (take_claims), [upstream's id]
-- ARGV  claims; epoch; safety (ms); 1 with upstream's id
-- says  ok | settled | fenced | gone
--
-- Sent twice: the same deadlines are set again.
local c = take_claims()
local epoch, ttl = arg(), num()
local upstream
if arg() == '1' then upstream = key() end

local h = redis.call('HMGET', c.run, 'e', 's')
if not h[1] then return say('gone') end
if h[1] ~= epoch then return say('fenced') end
if tonumber(h[2]) >= 5 then return say('settled') end
for _, k in ipairs({c.run, c.frames, c.leases, c.active}) do outlive(k, ttl) end
if c.key and redis.call('GET', c.key) == c.id then outlive(c.key, ttl) end
if upstream and redis.call('GET', upstream) == c.id then outlive(upstream, ttl) end
move_index(c.list, c.listed, c.id, ms + ttl)
if c.dialogue ~= '' then
  outlive(c.holders, ttl)
  move_index(c.order, c.ordered, c.id, ms + ttl)
  for _, name in ipairs(c.names) do carry_name(name, c.member, ms + ttl) end
end
return say('ok')
