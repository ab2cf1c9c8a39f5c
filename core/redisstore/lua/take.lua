-- Hands out what is due, highest priority first, then by due time. Removes nothing.
--   ARGV[1] token  ARGV[2] how many at most (1 to 500)  ARGV[3] dedupe window, ms
--   ARGV[4] how many bytes of records at most, but for the last record
--   ARGV[5] number of this take, higher than those before with this token: one that
--           comes late, when a later one has been settled, is refused
-- Reply: {'lost'} if the token does not own the bucket any more; else
--   {now in us, ms when what is not in flight is due next or 0, and for each priority that has some:
--    priority, {member, due ms, member, due ms, ...}, {record, ...}, {failure or '', ...} or {} if nothing ever failed}
local o = redis.call('HMGET', owner, 'token', 'until', 'prio', 'inflight', 'took', 'large')
if o[1] ~= ARGV[1] or tonumber(o[2]) < now then return {'lost'} end
if o[4] then return redis.error_reply('ERR messages are in flight already') end
if tonumber(ARGV[5]) <= tonumber(o[5] or 0) then return redis.error_reply('ERR a later take was made before') end
local left, prio = tonumber(ARGV[2]), tonumber(o[3] or 0)
local failed = redis.call('EXISTS', attempts) == 1
local reply, taken, inflight, next = {micros, 0}, {}, 0, 0

-- read fetches records until they are enough bytes for one reply. Where some may be
-- large, its steps grow while records are small: so few are read only to be left for
-- the next take. What has no record can't be delivered by anyone: it is taken out of
-- the due set.
local room, step, most = tonumber(ARGV[4]), 100, 100
if o[6] then step, most = 1, 8 end
local function read(p, found, ids)
  local records, kept, n, from = {}, {}, 0, 1
  while from <= #ids and room > 0 do
    local to, largest = math.min(from + step - 1, #ids), 1
    local part = redis.call('HMGET', msg, unpack(ids, from, to))
    for at = from, to do
      local record = part[at - from + 1]
      if not record then
        redis.call('ZREM', due(p), found[2 * at - 1])
      elseif room > 0 then
        n = n + 1
        records[n], ids[n] = record, ids[at]
        kept[2 * n - 1], kept[2 * n] = found[2 * at - 1], found[2 * at]
        room = room - #record
        if #record > largest then largest = #record end
      end
    end
    from, step = to + 1, math.max(1, math.min(2 * step, most, math.floor(room / largest)))
  end
  return records, kept, n
end

local function take(p, found)
  local ids = {}
  for i = 1, #found, 2 do ids[(i + 1) / 2] = found[i]:sub(6) end
  local records, kept, n = read(p, found, ids)
  if n == 0 then return 0 end
  local failures = {}
  if failed then
    failures = redis.call('HMGET', attempts, unpack(ids, 1, n))
    for i = 1, n do failures[i] = failures[i] or '' end
  end
  local r, t = #reply, #taken
  reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = p, kept, records, failures
  taken[t + 1], taken[t + 2] = 'h' .. p, n
  inflight = math.max(inflight, tonumber(kept[2 * n]))
  left = left - n
  if room <= 0 then left = 0 end
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
  redis.call('HSET', owner, 'inflight', inflight, 'took', ARGV[5], unpack(taken))
else
  forget(tonumber(ARGV[3]), 400)
end
return reply
