-- Gives the conversation of a run another name (promise 1). A name lives as
-- long as a run that carries it. A run without a conversation opens one.
--
-- KEYS  claims of the run as it will be (take_claims), name
-- ARGV  claims; epoch; change; 1 if the run opens the conversation, 1 if it then
--       holds it; safety (ms); verb; channel
-- says  ok | taken | gone | fenced | stale (look again)
--
-- Sent twice: the second compares unequal, and the name is the run's by then.
local c, name = take_claims(), key()
local epoch, change, opens, holds, ttl, verb, channel = arg(), take_change(), arg(), arg(), num(), arg(), arg()

local h = redis.call('HMGET', c.run, 'w', 'e', 'xr')
if not h[1] or past(h[3]) then return say('gone') end
if h[2] ~= epoch then return say('fenced') end
if h[1] ~= change.was then return say('stale') end
local stands = dialogue_of(name)
if stands ~= '' and stands ~= c.dialogue then return say('taken') end
rewrite(c.run, change)
if opens == '1' then
  enter_index(c.order, c.ordered, c.id, ms + ttl)
  if holds == '1' then hold_conversation(c, ttl) end
end
carry_name(name, c.member, ms + ttl)
redis.call(verb, channel, 'C')
return say('ok')
