-- Makes messages durable, in order. Touches nothing for those it refuses.
--   ARGV[1] own wake channel   ARGV[2] number of the bucket
--   ARGV[3] dedupe window, ms  ARGV[4] 1: write something even if all are duplicates,
--           so that a WAIT behind this covers the message that is there already
--   then four for each message (at most 500):
--     id; "<priority><1 if the id was generated, else 0>";
--     "<due> <expiry>", each ms of the epoch if >= 0, -1-ms from now if < 0; expiry 0 is never;
--     payload
-- Reply: 1 if the caller is to wake its own loop, else 0; then for each message
-- its due time in ms, or {'same', state, due, failure}, or {'conflict'}.
local window, n = tonumber(ARGV[3]), (#ARGV - 4) / 4
local up = math.ceil(micros / 1000)
local o = redis.call('HMGET', owner, 'seq', 'prio', 'hand')
local seq, prio, hand = tonumber(o[1] or 0), tonumber(o[2] or 0), tonumber(o[3] or 0)

local function bytes(v, width)
  local b = {}
  for i = width, 1, -1 do
    b[i] = v % 256
    v = math.floor(v / 256)
  end
  return string.char(unpack(b))
end

local ids, own_ids = {}, {}
for i = 1, n do
  local id = ARGV[1 + i * 4]
  ids[i] = id
  if ARGV[2 + i * 4]:byte(2) == 48 then own_ids[#own_ids + 1] = id end
end
local stored = redis.call('HMGET', msg, unpack(ids))
local marks = {}
if #own_ids > 0 and window > 0 and redis.call('EXISTS', done) == 1 then
  local scores = redis.call('ZMSCORE', done, unpack(own_ids))
  for i, id in ipairs(own_ids) do
    local mark = tonumber(scores[i] or -1)
    if mark >= 0 and math.floor(mark / 4) + window > now then marks[id] = mark end
  end
end

local settled = {'delivered', 'cancelled', 'discarded'}
local reply, fresh, records, dues, earliest = {0}, {}, {}, {}, nil
local touched = prio
for i = 1, n do
  local id, flags, times, payload = ids[i], ARGV[2 + i * 4], ARGV[3 + i * 4], ARGV[4 + i * 4]
  local record = stored[i] or fresh[id]
  if record then
    local extra = 6
    if record:byte(-1) % 2 == 1 then extra = 12 end
    if #record - extra == #payload and record:sub(1, #payload) == payload then
      reply[i + 1] = {'same', id}
    else
      reply[i + 1] = {'conflict'}
    end
  elseif marks[id] then
    reply[i + 1] = {'same', settled[marks[id] % 4], math.floor(marks[id] / 4), ''}
  else
    local space = times:find(' ', 1, true)
    local at, expiry = tonumber(times:sub(1, space - 1)), tonumber(times:sub(space + 1))
    if at < 0 then at = up - at - 1 end
    if expiry < 0 then expiry = up - expiry - 1 end
    -- A past time is now; and what is in hand stays in front.
    if at < now then at = now end
    if at < hand then at = hand end
    seq = seq + 1
    local s, trailer = bytes(seq, 5), 0
    if expiry > 0 then trailer = 1 end
    if flags:byte(2) == 49 then trailer = trailer + 2 end
    record = payload .. (expiry > 0 and bytes(expiry, 6) or '') .. s .. string.char(trailer)
    fresh[id] = record
    records[#records + 1] = id
    records[#records + 1] = record
    local p = flags:byte(1) - 48
    if p > touched then touched = p end
    local d = dues[p]
    if not d then d = {}; dues[p] = d end
    d[#d + 1] = at
    d[#d + 1] = s .. id
    if not earliest or at < earliest then earliest = at end
    reply[i + 1] = at
  end
end

if earliest then
  local first = head(touched)
  redis.call('HSET', msg, unpack(records))
  for p, d in pairs(dues) do redis.call('ZADD', due(p), unpack(d)) end
  redis.call('HSET', owner, 'seq', seq, 'prio', touched)
  reply[1] = wake(first, earliest, ARGV[1], ARGV[2])
elseif ARGV[4] == '1' then
  redis.call('HINCRBY', owner, 'touch', 1)
end
for i = 1, n do
  local r = reply[i + 1]
  if type(r) == 'table' and r[1] == 'same' and #r == 2 then
    local m = find(r[2], window)
    reply[i + 1] = {'same', m.state, m.due, m.failure}
  end
end
return reply
