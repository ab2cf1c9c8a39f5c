-- Prolongs a lease, and tells whether its owner may have missed something.
--   ARGV[1] token  ARGV[2] ms that it lasts from now
-- Reply: {how many wake-ups there were in this lease, ms now}, or {} if the token
-- does not own the bucket any more.
local o = redis.call('HMGET', owner, 'token', 'until', 'wakes')
if o[1] ~= ARGV[1] or tonumber(o[2]) < now then return {} end
allow_full()
redis.call('HSET', owner, 'until', now + ARGV[2])
return {tonumber(o[3] or 0), now}
