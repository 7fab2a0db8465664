-- once reports whether an operation was not carried out before.
local function once(op)
  return redis.call('SET', op, '1', 'NX', 'PX', 10000) ~= false
end
