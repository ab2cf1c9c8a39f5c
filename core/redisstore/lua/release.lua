-- Gives a lease up, so that another can have it at once, and tells the others.
--   ARGV[1] token  ARGV[2] channel of the sink's instances  ARGV[3] instance
-- Reply: 1, or 0 if the token did not own the bucket.
local owner = KEYS[1]
if redis.call('HGET', owner, 'token') ~= ARGV[1] then return 0 end
redis.call('HDEL', owner, '-') -- as allow_full in bucket.lua
redis.call('HSET', owner, 'token', '', 'wake', '', 'until', 0)
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
