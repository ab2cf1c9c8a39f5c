-- Counts what is in the bucket. No arguments.
-- Reply: {waiting, of these due, dead, 1 if owned, ms of the next due or 0}
local o = redis.call('HMGET', owner, 'until', 'prio')
local waiting, past, next = 0, 0, 0
for p = 0, tonumber(o[2] or 0) do
  local n = redis.call('ZCARD', due(p))
  if n > 0 then
    waiting = waiting + n
    past = past + redis.call('ZCOUNT', due(p), '-inf', now)
    local e = redis.call('ZRANGE', due(p), 0, 0, 'WITHSCORES')
    if next == 0 or tonumber(e[2]) < next then next = tonumber(e[2]) end
  end
end
return {waiting, past, redis.call('ZCARD', dead), tonumber(o[1] or 0) >= now and 1 or 0, next}
