-- Lists runs whose lease has expired by the server's clock (promise 5), and
-- leaves a mark by which the same instance knows the next time whether the
-- server has forgotten anything since.
--
-- KEYS  leases, mark of the instance
-- ARGV  number of runs at most, mark, its time to live (ms)
-- says  ok, the mark that was there or "", run ids
--
-- Sent twice: the second answer has the mark of the first, as if the server had
-- forgotten.
local leases, mark = key(), key()
local limit, next, ttl = num(), arg(), num()
local was = redis.call('GET', mark) or ''
redis.call('SET', mark, next, 'PX', int(ttl))
return say('ok', was, unpack(redis.call('ZRANGEBYSCORE', leases, '-inf', int(ms), 'LIMIT', 0, limit)))
