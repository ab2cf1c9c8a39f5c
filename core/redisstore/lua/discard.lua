-- Removes a dead letter for good.
--   ARGV[1] id  ARGV[2] dedupe window, ms  (ARGV[3] and ARGV[4] are not used)
-- Reply: as cancel.lua.
local m = find(ARGV[1], tonumber(ARGV[2]))
if not m then return {} end
if m.state ~= 'dead' then return {0, m.state, m.due, m.failure} end
redis.call('ZREM', dead, m.member)
redis.call('HDEL', msg, ARGV[1])
redis.call('HDEL', attempts, ARGV[1])
if not generated(m.record) and tonumber(ARGV[2]) > 0 then
  redis.call('ZADD', done, now * 4 + 3, ARGV[1])
end
return {1, m.state, m.due, m.failure}
