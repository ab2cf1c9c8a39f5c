-- Bounds the format that is written, also below one that is written already.
--   KEYS[1] meta, see format.lua  ARGV[1] the format, or 0: no bound any more
-- Reply: 1, or 0 if nothing is stored.
local meta, pin = KEYS[1], tonumber(ARGV[1])
local m = redis.call('HMGET', meta, 'format', 'writes')
if not m[1] then return 0 end
redis.call('HDEL', meta, 'pin') -- first, so that it works on a full Redis, too
if pin > 0 then
  redis.call('HSET', meta, 'pin', pin, 'writes', math.min(pin, tonumber(m[2] or m[1])))
end
return 1
