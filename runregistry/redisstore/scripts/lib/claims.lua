-- outlive makes sure that a key lives for at least ttl milliseconds more.
local function outlive(k, ttl)
  if redis.call('PTTL', k) < ttl then redis.call('PEXPIRE', k, int(ttl)) end
end

-- An index is two sorted sets of runs: one by order, one by deadline. Both live
-- until the last deadline in them.
local function last_deadline(expiry)
  local top = redis.call('ZREVRANGE', expiry, 0, 0, 'WITHSCORES')
  return top[2] and math.max(tonumber(top[2]) - ms, 1)
end

local function keep_index(order, expiry)
  local ttl = last_deadline(expiry)
  if ttl then
    redis.call('PEXPIRE', order, int(ttl))
    redis.call('PEXPIRE', expiry, int(ttl))
  end
end

-- enter_index puts a run behind all others, or where it belongs that began since.
local function enter_index(order, expiry, member, deadline, since)
  local gone = redis.call('ZRANGEBYSCORE', expiry, '-inf', int(ms), 'LIMIT', 0, 100)
  if #gone > 0 then
    redis.call('ZREM', order, unpack(gone))
    redis.call('ZREM', expiry, unpack(gone))
  end
  local score, top = since or us, redis.call('ZREVRANGE', order, 0, 0, 'WITHSCORES')
  if top[2] and not since and tonumber(top[2]) >= score then score = tonumber(top[2]) + 1 end
  while since and redis.call('ZRANGEBYSCORE', order, int(score), int(score), 'LIMIT', 0, 1)[1] do score = score + 1 end
  redis.call('ZADD', order, int(score), member)
  redis.call('ZADD', expiry, int(deadline), member)
  keep_index(order, expiry)
end

local function move_index(order, expiry, member, deadline)
  redis.call('ZADD', expiry, int(deadline), member)
  keep_index(order, expiry)
end

local function leave_index(order, expiry, member)
  redis.call('ZREM', order, member)
  redis.call('ZREM', expiry, member)
  keep_index(order, expiry)
end

-- A name of a conversation is a sorted set of "<dialogue>:<run>" by deadline.
local function carry_name(name, member, deadline)
  redis.call('ZREMRANGEBYSCORE', name, '-inf', int(ms))
  redis.call('ZADD', name, int(deadline), member)
  redis.call('PEXPIRE', name, int(last_deadline(name)))
end

local function drop_name(name, member)
  redis.call('ZREM', name, member)
  local ttl = last_deadline(name)
  if ttl then redis.call('PEXPIRE', name, int(ttl)) end
end

-- dialogue_of returns the dialogue that a name stands for, or ''.
local function dialogue_of(name)
  local top = redis.call('ZREVRANGE', name, 0, 0, 'WITHSCORES')
  if not top[2] or tonumber(top[2]) <= ms then return '' end
  return string.match(top[1], '^[^:]*')
end

-- take_claims takes everything that a run may have claimed. KEYS: run, frames,
-- readers, leases, active runs of the subject, list, its deadlines, [key],
-- [holders, dialogue, its deadlines, names...]. ARGV: run id, 1 with a key,
-- dialogue or '', number of names.
local function take_claims()
  local c = {run = key(), frames = key(), readers = key(), leases = key(), active = key(), list = key(), listed = key()}
  c.id = arg()
  if arg() == '1' then c.key = key() end
  c.dialogue, c.names = arg(), {}
  local names = num()
  if c.dialogue ~= '' then
    c.holders, c.order, c.ordered = key(), key(), key()
    c.member = c.dialogue .. ':' .. c.id
    for i = 1, names do c.names[i] = key() end
  end
  return c
end

-- release gives up what only an active run holds.
local function release(c)
  redis.call('ZREM', c.active, c.id)
  if c.holders then redis.call('ZREM', c.holders, c.id) end
end

-- call_next tells whoever is first in line that its turn has come.
local function call_next(c, verb)
  local first = c.holders and redis.call('ZRANGE', c.holders, 0, 0)[1]
  if first then redis.call(verb, (string.gsub(c.run, 'r:[^:]*$', 'n:' .. first)), 'C') end
end

-- An end. ARGV: final number, milliseconds that frames, record and key are
-- kept, 1 to free the key.
local function take_end()
  return {final = arg(), frames = num(), record = num(), key = num(), free = arg()}
end

local function finish(c, e)
  redis.call('ZREM', c.leases, c.id)
  release(c)
  redis.call('HSET', c.run, 'fs', e.final, 'xf', int(ms + e.frames), 'xr', int(ms + e.record))
  if c.key and redis.call('GET', c.key) == c.id then
    if e.free == '1' then redis.call('DEL', c.key) else redis.call('PEXPIRE', c.key, int(e.key)) end
  end
  move_index(c.list, c.listed, c.id, ms + e.record)
  if c.dialogue ~= '' then
    move_index(c.order, c.ordered, c.id, ms + e.record)
    for _, name in ipairs(c.names) do carry_name(name, c.member, ms + e.record) end
  end
  redis.call('PEXPIRE', c.frames, int(e.frames))
  redis.call('PEXPIRE', c.run, int(e.record))
  if redis.call('PTTL', c.readers) > e.record then redis.call('PEXPIRE', c.readers, int(e.record)) end
end

-- claim is what an admission and a restored run have in common. c comes from
-- take_claims; a restored run began since (us).
local function claim(c, ttl, lease, since)
  redis.call('PEXPIRE', c.run, int(ttl))
  redis.call('ZADD', c.leases, int(ms + lease), c.id)
  outlive(c.leases, ttl)
  enter_index(c.list, c.listed, c.id, ms + ttl, since)
  if c.key then redis.call('SET', c.key, c.id, 'PX', int(ttl)) end
  if c.dialogue ~= '' then
    enter_index(c.order, c.ordered, c.id, ms + ttl, since)
    for _, name in ipairs(c.names) do carry_name(name, c.member, ms + ttl) end
  end
end

-- hold_conversation makes the run the newest that its conversation is about.
local function hold_conversation(c, ttl)
  local score, top = us, redis.call('ZREVRANGE', c.holders, 0, 0, 'WITHSCORES')
  if top[2] and tonumber(top[2]) >= score then score = tonumber(top[2]) + 1 end
  redis.call('ZADD', c.holders, int(score), c.id)
  outlive(c.holders, ttl)
end

-- hold takes what only an active run has.
local function hold(c, ttl)
  redis.call('ZADD', c.active, int(us), c.id)
  outlive(c.active, ttl)
  if c.holders then hold_conversation(c, ttl) end
end

-- guests_of lists runs of a subject in other partitions that count in its limit
-- here, the oldest first, and since when.
local function guests_of(guests)
  local all = redis.call('ZRANGE', guests, 0, 999, 'WITHSCORES')
  for i = 2, #all, 2 do all[i] = int(tonumber(all[i])) end
  return unpack(all)
end
