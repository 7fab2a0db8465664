-- Writes a run again that the store has lost: record, claims and the frames of
-- its owner's window, if the claims are still free (promises 1 and 7). One that
-- has ended goes without those that are not.
--
-- KEYS  claims (take_claims), mark of a deletion, [conversation's name],
--       [upstream's id]
-- ARGV  claims; 1 with a conversation; dialogue; 1 with upstream's id; 1 if the
--       run holds its conversation; epoch; instance; safety (ms); lease (ms);
--       log limits (frames, bytes); token; state; revision; record; 1 with a
--       snapshot, snapshot; bytes ever stored; time of its admission (ms), of the
--       first frame or '', of the last or ''; 1 with an end, end; deliveries pending, open, 1 with
--       headers, 1 broken early, 1 broken late; verb; channel; number of the
--       last frame before the window; number of frames; frames
-- says  ok | there, and nothing is written | taken
--
-- Sent twice: the second finds the run with its own epoch.
local c, mark = take_claims(), key()
local name, upstream
if arg() == '1' then name = key() end
local dialogue = arg()
if arg() == '1' then upstream = key() end
local holding, epoch, instance, ttl, lease = arg(), arg(), arg(), num(), num()
local frames, bytes, token, state, revision, record = arg(), arg(), arg(), arg(), arg(), arg()
local snapped, snapshot, all, since, begun, active = arg(), arg(), arg(), num(), arg(), arg()
local e
if arg() == '1' then e = take_end() end
local pending, open, headers, early, late = arg(), arg(), arg(), arg(), arg()
local verb, channel, after, n = arg(), arg(), num(), num()

local stands = redis.call('HGET', c.run, 'e')
if stands then return say(stands == epoch and 'there' or 'taken') end
if redis.call('EXISTS', mark) == 1 then return say('taken') end
local function others(k)
  local owner = k and redis.call('GET', k)
  return owner and owner ~= c.id
end
local function elsewhere(called)
  local is = dialogue_of(called)
  return is ~= '' and is ~= dialogue
end
if e then
  if others(c.key) then c.key = nil end
  if others(upstream) then upstream = nil end
  for i = #c.names, 1, -1 do
    if elsewhere(c.names[i]) then table.remove(c.names, i) end
  end
else
  if others(c.key) or name and elsewhere(name) then return say('taken') end
  if name and holding == '1' and redis.call('ZCARD', c.holders) > 0 then return say('taken') end
end

local size, largest = 0, 0
redis.call('DEL', c.frames)
for i = 1, n do
  local data = ARGV[read + i]
  redis.call('XADD', c.frames, '0-' .. int(after + i), 'a', int(ms), 'd', data)
  size, largest = size + #data, math.max(largest, #data)
end
if n > 0 then redis.call('PEXPIRE', c.frames, int(ttl)) end
redis.call('HSET', c.run, 'w', token, 's', state, 'br', revision, 'b', record, 'e', epoch, 'o', instance,
  'dl', int(ms + lease), 'q', int(after + n), 'g', '0', 'y', all, 'rb', int(size), 'mf', int(largest),
  'lo', int(n > 0 and after + 1 or 0), 'lf', frames, 'lb', bytes,
  'dp', pending, 'do', open, 'dh', headers, 'de', early, 'dx', late, 'dg', '1')
if snapped == '1' then redis.call('HSET', c.run, 'sn', snapshot) end
if begun ~= '' then redis.call('HSET', c.run, 't1', begun) end
if active ~= '' then redis.call('HSET', c.run, 'ta', active) end
claim(c, ttl, lease, since * 1000)
if holding == '1' then hold(c, ttl) end
if upstream then redis.call('SET', upstream, c.id, 'PX', int(e and e.record or ttl)) end
if e then finish(c, e) end
redis.call(verb, channel, 'C')
return say('ok')
