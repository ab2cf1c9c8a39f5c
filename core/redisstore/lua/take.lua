-- Hands out what is due, highest priority first, then by due time. Removes nothing.
--   ARGV[1] token  ARGV[2] how many at most (1 to 500)  ARGV[3] dedupe window, ms
-- Reply: {'lost'} if the token does not own the bucket any more; else
--   {now in us, ms when what is not in hand is due next or 0, {member, due ms, ...},
--    {record, ...}, {failure or '', ...} or {} if nothing ever failed,
--    {how many of each priority, from the highest down}}
local o = redis.call('HMGET', owner, 'token', 'until', 'prio', 'hand')
if o[1] ~= ARGV[1] or tonumber(o[2]) < now then return {'lost'} end
if o[4] then return redis.error_reply('ERR messages are in hand already') end
local left, prio = tonumber(ARGV[2]), tonumber(o[3] or 0)
local members, ids, counts, taken, hand = {}, {}, {}, {}, nil
for p = prio, 0, -1 do
  local n = 0
  if left > 0 then
    local found = redis.call('ZRANGEBYSCORE', due(p), '-inf', now, 'WITHSCORES', 'LIMIT', 0, left)
    n = #found / 2
    for i = 1, #found, 2 do
      members[#members + 1] = found[i]
      members[#members + 1] = found[i + 1]
      ids[#ids + 1] = found[i]:sub(6)
    end
    if n > 0 then
      local last = tonumber(found[#found])
      if not hand or last > hand then hand = last end
      taken[#taken + 1] = 'h' .. p
      taken[#taken + 1] = n
    end
    left = left - n
  end
  counts[#counts + 1] = n
end

local next = 0
for p = 0, prio do
  local n = counts[prio - p + 1]
  local e = redis.call('ZRANGE', due(p), n, n, 'WITHSCORES')
  if e[2] and (next == 0 or tonumber(e[2]) < next) then next = tonumber(e[2]) end
end

local records, failures = {}, {}
if #ids > 0 then
  allow_full()
  records = redis.call('HMGET', msg, unpack(ids))
  if redis.call('EXISTS', attempts) == 1 then
    failures = redis.call('HMGET', attempts, unpack(ids))
    for i = 1, #ids do failures[i] = failures[i] or '' end
  end
  redis.call('HSET', owner, 'hand', hand, unpack(taken))
else
  local old = redis.call('ZRANGEBYSCORE', done, '-inf', (now - ARGV[3]) * 4, 'LIMIT', 0, 400)
  if #old > 0 then redis.call('ZREM', done, unpack(old)) end
end
return {micros, next, members, records, failures, counts}
