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
