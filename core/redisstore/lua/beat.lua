-- Says that an instance is alive, and which are.
--   KEYS[1] members  zset  instance -> ms until which it counts as alive
--   ARGV[1] instance  ARGV[2] ms that it counts from now; 0: it leaves
-- Reply: the instances alive.
redis.call('ZREM', KEYS[1], ARGV[1]) -- first, so that it works on a full Redis, too
if tonumber(ARGV[2]) > 0 then redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 1)
return redis.call('ZRANGE', KEYS[1], 0, 999)
