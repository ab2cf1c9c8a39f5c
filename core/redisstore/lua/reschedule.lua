-- Changes when a waiting message is due.
--   ARGV[1] id  ARGV[2] dedupe window, ms  ARGV[3] sequence number that the caller has seen
--   ARGV[4] own wake channel  ARGV[5] number of the bucket
--   ARGV[6] new due time: ms of the epoch if >= 0, -1-ms from now if < 0
-- Reply: {} if there is none; {'moved'} if it has another sequence number; {'expires'} if it
-- would expire first; else
-- {1 done or 0 too late, state, due now, failure now, 1 if the caller is to wake its own loop}.
local m = find(ARGV[1], tonumber(ARGV[2]))
if not m then return {} end
if moved(m, ARGV[3]) then return {'moved'} end
if m.state ~= 'waiting' then return {0, m.state, m.due, m.failure, 0} end
local at = tonumber(ARGV[6])
if at < 0 then at = up - at - 1 end
if at < now then at = now end
if expires(m.record) then
  local expiry = 0
  for i = 12, 7, -1 do expiry = expiry * 256 + m.record:byte(-i) end
  if at >= expiry then return {'expires'} end
end
local first = head(tonumber(redis.call('HGET', owner, 'prio') or 0))
redis.call('ZREM', due(m.p), m.member)
at = accept_anew(m, m.record, at)
if m.failure ~= '' then
  m.failure = m.failure:gsub('^(%d+) %d+', '%1 ' .. string.format('%.0f', at), 1)
  redis.call('HSET', attempts, ARGV[1], m.failure)
end
return {1, m.state, at, m.failure, wake(first, at, ARGV[4], ARGV[5])}
