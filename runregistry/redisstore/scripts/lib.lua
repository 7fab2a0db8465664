-- What all scripts share. It is put before each of them.
--
-- KEYS and ARGV are taken from the front, one by one, in the order that the
-- head of each script names. A script looks first and writes last: a command
-- that fails in the middle would not be rolled back. Every reply begins with a
-- word and with the server's time in microseconds.

local taken, read = 0, 0
local function key() taken = taken + 1; return KEYS[taken] end
local function arg() read = read + 1; return ARGV[read] end
local function num() return tonumber(arg()) end
local function int(n) return string.format('%.0f', n) end

local clock = redis.call('TIME')
local us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local ms = math.floor(us / 1000)

local function say(word, ...) return {word, int(us), ...} end
local function past(deadline) return deadline and deadline ~= '' and tonumber(deadline) <= ms end

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

local function enter_index(order, expiry, member, deadline)
  local gone = redis.call('ZRANGEBYSCORE', expiry, '-inf', int(ms), 'LIMIT', 0, 100)
  if #gone > 0 then
    redis.call('ZREM', order, unpack(gone))
    redis.call('ZREM', expiry, unpack(gone))
  end
  local score, top = us, redis.call('ZREVRANGE', order, 0, 0, 'WITHSCORES')
  if top[2] and tonumber(top[2]) >= score then score = tonumber(top[2]) + 1 end
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

-- count_readers adds up the readers of all instances but one.
local function count_readers(readers, but)
  local all, sum = redis.call('HGETALL', readers), 0
  for i = 1, #all, 2 do
    local n, deadline = string.match(all[i + 1], '^(%d+) (%d+)')
    if all[i] ~= but and not past(deadline) then sum = sum + tonumber(n) end
  end
  return sum
end

-- set_readers stores how many readers a run has on an instance. The stamp puts
-- calls that overtook each other into order; it is remembered for a moment after
-- the last reader left. Nothing outlives the run.
local function set_readers(run, readers, instance, n, stamp, lease)
  local was = redis.call('HGET', readers, instance)
  if was and tonumber(string.match(was, '(%d+)$')) > stamp then return end
  redis.call('HSET', readers, instance, int(n) .. ' ' .. int(ms + lease) .. ' ' .. int(stamp))
  local ttl = 2 * lease
  if n == 0 and count_readers(readers, instance) == 0 then ttl = 5000 end
  redis.call('PEXPIRE', readers, int(math.max(math.min(ttl, redis.call('PTTL', run)), 1)))
end

-- once reports whether an operation was not carried out before.
local function once(op)
  return redis.call('SET', op, '1', 'NX', 'PX', 10000) ~= false
end

-- A change rewrites a record. ARGV: token that must stand, new token, state,
-- revision, record, 1 with a snapshot, snapshot.
local function take_change()
  local c = {was = arg(), token = arg(), state = arg(), revision = arg(), record = arg()}
  c.snapped, c.snapshot = arg(), arg()
  return c
end

local function rewrite(run, c)
  redis.call('HSET', run, 'w', c.token, 's', c.state, 'br', c.revision, 'b', c.record)
  if c.snapped == '1' then redis.call('HSET', run, 'sn', c.snapshot) end
end

-- An upstream's id moves with the run. KEYS: the name that it had, the one that
-- it gets, the one that it keeps (where there is one). ARGV: 1 for each of the
-- three or 0, their time to live.
local function take_upstream()
  local u = {}
  if arg() == '1' then u.old = key() end
  if arg() == '1' then u.new = key() end
  if arg() == '1' then u.same = key() end
  u.ttl = math.max(num(), 1)
  return u
end

local function move_upstream(u, run)
  if u.old and redis.call('GET', u.old) == run then redis.call('DEL', u.old) end
  if u.new then redis.call('SET', u.new, run, 'PX', int(u.ttl)) end
  if u.same and redis.call('GET', u.same) == run then redis.call('PEXPIRE', u.same, int(u.ttl)) end
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
-- take_claims.
local function claim(c, ttl, lease)
  redis.call('PEXPIRE', c.run, int(ttl))
  redis.call('ZADD', c.leases, int(ms + lease), c.id)
  outlive(c.leases, ttl)
  enter_index(c.list, c.listed, c.id, ms + ttl)
  if c.key then redis.call('SET', c.key, c.id, 'PX', int(ttl)) end
  if c.dialogue ~= '' then
    enter_index(c.order, c.ordered, c.id, ms + ttl)
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
