-- Hands out what is due, highest priority first, then by due time. Removes nothing.
--   ARGV[1] token  ARGV[2] how many at most (1 to 500)  ARGV[3] dedupe window, ms
-- Reply: {'lost'} if the token does not own the bucket any more; else
--   {now in us, ms when what is not in hand is due next or 0, and for each priority that has some:
--    priority, {member, due ms, member, due ms, ...}, {record, ...}, {failure or '', ...} or {} if nothing ever failed}
local o = redis.call('HMGET', owner, 'token', 'until', 'prio', 'hand')
if o[1] ~= ARGV[1] or tonumber(o[2]) < now then return {'lost'} end
if o[4] then return redis.error_reply('ERR messages are in hand already') end
local left, prio = tonumber(ARGV[2]), tonumber(o[3] or 0)
local failed = redis.call('EXISTS', attempts) == 1
local reply, taken, hand, next = {micros, 0}, {}, 0, 0

local function take(p, found)
  local ids, n = {}, 0
  for i = 1, #found, 2 do
    n = n + 1
    ids[n] = found[i]:sub(6)
  end
  local failures = {}
  if failed then
    failures = redis.call('HMGET', attempts, unpack(ids))
    for i = 1, n do failures[i] = failures[i] or '' end
  end
  local r, t = #reply, #taken
  reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = p, found, redis.call('HMGET', msg, unpack(ids)), failures
  taken[t + 1], taken[t + 2] = 'h' .. p, n
  hand = math.max(hand, tonumber(found[#found]))
  left = left - n
  return n
end

for p = prio, 0, -1 do
  local n = 0
  if left > 0 then
    local found = redis.call('ZRANGEBYSCORE', due(p), '-inf', now, 'WITHSCORES', 'LIMIT', 0, left)
    if #found > 0 then n = take(p, found) end
  end
  local e = redis.call('ZRANGE', due(p), n, n, 'WITHSCORES')
  if e[2] and (next == 0 or tonumber(e[2]) < next) then next = tonumber(e[2]) end
end
reply[2] = next

if #taken > 0 then
  allow_full()
  redis.call('HSET', owner, 'hand', hand, unpack(taken))
else
  local old = redis.call('ZRANGEBYSCORE', done, '-inf', (now - ARGV[3]) * 4, 'LIMIT', 0, 400)
  if #old > 0 then redis.call('ZREM', done, unpack(old)) end
end
return reply
