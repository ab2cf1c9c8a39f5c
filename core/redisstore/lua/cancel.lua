-- Withdraws a waiting message.
--   ARGV[1] id  ARGV[2] dedupe window, ms  ARGV[3] sequence number that the caller has seen
--   (ARGV[4] and ARGV[5] are not used)  ARGV[6] line to keep about it, or ''  ARGV[7] bytes that may wait
-- Reply: {} if there is none; {'moved'} if it has another sequence number; else {1 done or 0 too late, state before, due, failure}.
local m = find(ARGV[1], tonumber(ARGV[2]))
if not m then return {} end
if moved(m, ARGV[3]) then return {'moved'} end
if m.state ~= 'waiting' then return {0, m.state, m.due, m.failure} end
redis.call('ZREM', due(m.p), m.member)
redis.call('HDEL', msg, ARGV[1])
redis.call('HDEL', attempts, ARGV[1])
if not generated(m.record) then remember({ARGV[1]}, 2, tonumber(ARGV[2])) end
tell(ARGV[6], 1, tonumber(ARGV[7]))
return {1, m.state, m.due, m.failure}
