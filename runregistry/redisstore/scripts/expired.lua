-- Lists runs whose lease has expired by the server's clock (promise 5).
--
-- KEYS  leases
-- ARGV  number of runs at most
-- says  ok, run ids
return say('ok', unpack(redis.call('ZRANGEBYSCORE', key(), '-inf', int(ms), 'LIMIT', 0, num())))
