-- Gives an ownership up, so that another can have it at once.
--   ARGV[1] token
-- Reply: 1, or 0 if the token did not own the bucket.
if redis.call('HGET', owner, 'token') ~= ARGV[1] then return 0 end
allow_full()
redis.call('HSET', owner, 'token', '', 'wake', '', 'until', 0)
return 1
