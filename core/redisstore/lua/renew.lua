-- Prolongs leases, and tells whether their owners may have missed something.
--   KEYS the owner keys, see bucket.lua
--   ARGV[1] ms that they last from now, then for each lease: token
-- Reply: ms now, then for each lease how many wake-ups there were in it, or -1 if the
-- token does not own the bucket any more.
local reply = {now}
for i, owner in ipairs(KEYS) do
  local o = redis.call('HMGET', owner, 'token', 'until', 'wakes')
  if o[1] ~= ARGV[i + 1] or tonumber(o[2]) < now then
    reply[i + 1] = -1
  else
    redis.call('HDEL', owner, '-') -- as allow_full in bucket.lua
    redis.call('HSET', owner, 'until', now + ARGV[1])
    reply[i + 1] = tonumber(o[3] or 0)
  end
end
return reply
