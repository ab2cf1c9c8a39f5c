-- Stands before the scripts that remember the ids of settled messages.

-- forget removes up to limit ids whose window is over. A mark is kept at least for as
-- long as an accept that was sent before it may still arrive, see park.lua.
local function forget(window, limit)
  local over = (now - math.max(window, math.ceil(holds / 1000) + 1)) * 4
  local old = redis.call('ZRANGEBYSCORE', done, '-inf', over, 'LIMIT', 0, limit)
  if #old > 0 then redis.call('ZREM', done, unpack(old)) end
end

-- remember notes ids as settled in the way that kind says (1 delivered, 2 cancelled,
-- 3 discarded), and forgets more than that, so that what is remembered stays in
-- proportion to the window, whoever settles and whether or not the sink is served.
local function remember(ids, kind, window)
  local marks, value = {}, now * 4 + kind
  for i, id in ipairs(ids) do
    marks[2 * i - 1], marks[2 * i] = value, id
  end
  redis.call('ZADD', done, unpack(marks))
  forget(window, 2 * #ids + 2)
end
