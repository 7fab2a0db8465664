-- Counts a run that is about to start in another partition in the limit of its
-- subject, whose other runs are here (promise 1).
--
-- KEYS  active runs of the subject, its guests
-- ARGV  run; limit of active runs; number of runs that give way to it, and each;
--       safety (ms)
-- says  ok | limit, guests_of
--
-- Sent twice: the run does not count itself.
local active, guests = key(), key()
local run, limit = arg(), num()
local others = redis.call('ZCARD', active) + redis.call('ZCARD', guests)
if redis.call('ZSCORE', guests, run) then others = others - 1 end
for i = 1, num() do
  if redis.call('ZSCORE', guests, arg()) then others = others - 1 end
end
if others >= limit then return say('limit', guests_of(guests)) end
redis.call('ZADD', guests, int(us), run)
outlive(guests, num())
return say('ok')
