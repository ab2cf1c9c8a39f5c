-- Prolongs an ownership.
--   ARGV[1] token  ARGV[2] ms that it lasts from now
-- Reply: 1, or 0 if the token does not own the bucket any more.
local o = redis.call('HMGET', owner, 'token', 'until')
if o[1] ~= ARGV[1] or tonumber(o[2]) < now then return 0 end
allow_full()
redis.call('HSET', owner, 'until', now + ARGV[2])
return 1
