-- Makes a dead letter due at once, without attempts or expiry.
--   ARGV[1] id  ARGV[2] dedupe window, ms  ARGV[3] sequence number that the caller has seen
--   ARGV[4] own wake channel  ARGV[5] number of the bucket
-- Reply: as reschedule.lua.
local m = find(ARGV[1], tonumber(ARGV[2]))
if not m then return {} end
if moved(m, ARGV[3]) then return {'moved'} end
if m.state ~= 'dead' then return {0, m.state, m.due, m.failure, 0} end
local record = m.record
if expires(record) then
  record = record:sub(1, -13) .. record:sub(-6, -2) .. string.char(record:byte(-1) - 1)
end
local first = head(tonumber(redis.call('HGET', owner, 'prio') or 0))
redis.call('ZREM', dead, m.member)
redis.call('HDEL', attempts, ARGV[1])
local at = accept_anew(m, record, now)
return {1, m.state, at, '', wake(first, at, ARGV[4], ARGV[5])}
