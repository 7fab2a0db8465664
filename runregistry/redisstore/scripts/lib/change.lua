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
