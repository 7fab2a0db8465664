-- Starts a run: key, conversation, limit, list and record are claimed together
-- or not at all (promise 1). The conversation is taken from the runs that gave
-- it away in the same step.
--
-- KEYS  claims of the new run (take_claims); guests of its subject; [echoes];
--       [conversation's name]; per loser: its claims
-- ARGV  claims; value of the key that must stand or ''; 1 with echoes, how
--       long they are remembered (ms); 1 with a conversation, dialogue that
--       its name must stand for or '', 1 to compare the holders, the holders
--       joined by commas; instance; readers there, their stamp; safety (ms);
--       lease (ms); limit of active runs, 0 without; log limits (frames,
--       bytes); token; state; revision; record; verb; number of losers; per
--       loser: claims, change, 1 if nobody may read it elsewhere, 1 if it
--       counts in this subject's limit, channel, owner's channel or '', 1 if
--       it ends and the end
-- says  ok | exists | stale (look again) | limit, guests_of
--
-- Sent twice: the second finds the run (exists), and whoever sent it reads its
-- own token there.
local c, guests = take_claims(), key()
local was = arg()
local echoes, memory
if arg() == '1' then echoes = key() end
memory = num()
local name, dialogue, compare, holders
if arg() == '1' then name = key() end
dialogue, compare, holders = arg(), arg(), arg()
local instance, readers, stamp, ttl, lease = arg(), num(), num(), num(), num()
local limit, frames, bytes = num(), arg(), arg()
local token, state, revision, record, verb = arg(), arg(), arg(), arg(), arg()
local losers, freed = {}, 0
for i = 1, num() do
  local l = {claims = take_claims(), change = take_change()}
  l.unread, l.counts, l.channel, l.owner = arg(), arg(), arg(), arg()
  if arg() == '1' then l.ends = take_end() end
  losers[i] = l
end

if redis.call('EXISTS', c.run) == 1 then return say('exists') end
if c.key and (redis.call('GET', c.key) or '') ~= was then return say('stale') end
if name then
  if dialogue_of(name) ~= dialogue then return say('stale') end
  if compare == '1' and table.concat(redis.call('ZRANGE', c.holders, 0, -1), ',') ~= holders then return say('stale') end
end
for _, l in ipairs(losers) do
  if redis.call('HGET', l.claims.run, 'w') ~= l.change.was then return say('stale') end
  if l.unread == '1' and count_readers(l.claims.readers, instance) > 0 then return say('stale') end
  if l.counts == '1' and redis.call('ZSCORE', l.claims.active, l.claims.id) then freed = freed + 1 end
end
if limit > 0 and redis.call('ZCARD', c.active) + redis.call('ZCARD', guests) - freed >= limit then
  return say('limit', guests_of(guests))
end

for _, l in ipairs(losers) do
  rewrite(l.claims.run, l.change)
  release(l.claims)
  if l.ends then finish(l.claims, l.ends) end
  redis.call(verb, l.channel, 'C')
  if l.owner ~= '' then redis.call('PUBLISH', l.owner, l.claims.id) end
end
redis.call('HSET', c.run, 'w', token, 's', state, 'br', revision, 'b', record, 'e', '1', 'o', instance,
  'dl', int(ms + lease), 'q', '0', 'g', '0', 'y', '0', 'rb', '0', 'mf', '0', 'lo', '0', 'lf', frames, 'lb', bytes,
  'dp', '1', 'do', '0', 'dh', '0', 'de', '0', 'dx', '0', 'dg', '1')
claim(c, ttl, lease)
hold(c, ttl)
set_readers(c.run, c.readers, instance, readers, stamp, lease)
if echoes then
  local top = redis.call('ZREVRANGE', echoes, 0, 0, 'WITHSCORES')
  local score = us
  if top[2] and tonumber(top[2]) >= score then score = tonumber(top[2]) + 1 end
  redis.call('ZREMRANGEBYSCORE', echoes, '-inf', int(us - memory * 1000))
  redis.call('ZADD', echoes, int(score), c.id)
  outlive(echoes, memory)
end
return say('ok')
