-- Counts what is in some buckets of one sink.
--   KEYS for each bucket: owner, attempts, dead, and due of the priorities 0 to ARGV[1]
--   ARGV[1] highest priority that is counted
-- Reply: {waiting, of these due, of these tried before, dead, buckets that are owned, ms of the
--   next due or 0, now, highest priority used: if that is higher, the others are too low}
local most, top = tonumber(ARGV[1]), 0
local waiting, past, tried, died, owned, next = 0, 0, 0, 0, 0, 0
for k = 1, #KEYS, 4 + most do
  local o = redis.call('HMGET', KEYS[k], 'until', 'prio')
  if tonumber(o[1] or 0) >= now then owned = owned + 1 end
  -- Every dead letter has an entry in attempts, and so has every waiting message that was tried.
  local failed = redis.call('HLEN', KEYS[k + 1])
  local dead = failed > 0 and redis.call('ZCARD', KEYS[k + 2]) or 0
  tried, died = tried + failed - dead, died + dead
  local prio = tonumber(o[2] or 0)
  top = math.max(top, prio)
  for p = 0, math.min(prio, most) do
    local due = KEYS[k + 3 + p]
    local first = tonumber(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2])
    if first then
      waiting = waiting + redis.call('ZCARD', due)
      if first <= now then past = past + redis.call('ZCOUNT', due, '-inf', now) end
      if next == 0 or first < next then next = first end
    end
  end
end
return {waiting, past, tried, died, owned, next, now, top}
