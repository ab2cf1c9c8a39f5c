-- Tells what became of the messages in flight. What is not named goes back untouched.
-- Running it again does no harm, and does what is not done yet: each group skips
-- what is not in flight any more, and 'inflight' is cleared when all is done. If something
-- else is in flight, that has another number: a higher one if this call comes late, and
-- nothing is done; a lower one if a failover has taken back the take that this call
-- is of, and what is in flight goes back.
--   ARGV[1] token  ARGV[2] dedupe window, ms  ARGV[3] number of the take
--   ARGV[4] 1 if another call has more outcomes, so that the rest stays in flight; else 0
--   ARGV[5] number of groups
--   then for each group: how, priority, count, and count times its items:
--     how 'e' lines to keep about messages of the groups that follow: lines, bytes that may wait
--     how 'm' ids to remember as delivered, before the groups that remove them: id
--     how 'a' all of the priority that is in flight is delivered: id
--     how 'd' delivered: member
--     how 'b' back: member, ms from now, failure
--     how 'x' dead: member, failure
-- At most 1000 items. Reply: 1, or 0 if the token does not own the bucket any more.
local o = redis.call('HMGET', owner, 'token', 'inflight', 'prio', 'took')
if o[1] ~= ARGV[1] then return 0 end
local mine, took, inflight = tonumber(ARGV[3]), tonumber(o[4] or 0), tonumber(o[2])
if not inflight or mine < took then return 1 end
local fields = {}
for p = 0, tonumber(o[3] or 0) do fields[p + 1] = 'h' .. p end
local held = redis.call('HMGET', owner, unpack(fields)) -- held[p + 1] is h<p>
local failed = redis.call('EXISTS', attempts) == 1
allow_full()

-- removed notes that so many of a priority are not in flight any more.
local function removed(p, count)
  held[p + 1] = held[p + 1] - count
  redis.call('HSET', owner, 'h' .. p, held[p + 1])
end

-- prove makes the writes of the groups but 'a', without effect: a right that the user
-- lacks is to show before the first of several.
local proven = false
local function prove()
  if proven then return end
  redis.call('HSET', owner, 'took', took)
  redis.call('HINCRBY', owner, 'seq', 0)
  redis.call('ZADD', dead, 'XX', now, '')
  redis.call('ZREM', dead, '')
  proven = true
end

-- still_in_flight returns the positions of those members, each the first of width
-- arguments from a on, that are in flight still.
local function still_in_flight(p, count, a, width)
  local members, at = {}, {}
  for i = 1, count do members[i] = ARGV[a + (i - 1) * width] end
  local scores = redis.call('ZMSCORE', due(p), unpack(members))
  for i = 1, count do
    if scores[i] then at[#at + 1] = a + (i - 1) * width end
  end
  return at
end

-- sweep removes what a run that failed has left of messages that it took out of their
-- due set. A record that lies in no set is of none of the new messages with such an id.
local function sweep(ids)
  for i, record in ipairs(redis.call('HMGET', msg, unpack(ids))) do
    local member = record and record:sub(-6, -2) .. ids[i]
    if record and not redis.call('ZSCORE', due(math.floor(record:byte(2) / 16)), member)
      and not redis.call('ZSCORE', dead, member) then
      redis.call('HDEL', attempts, ids[i])
      redis.call('HDEL', msg, ids[i])
    end
  end
end

local settle = {}

function settle.e(_, count, a)
  tell(ARGV[a], count, tonumber(ARGV[a + 1]))
  return a + 2
end

function settle.m(_, count, a)
  remember({unpack(ARGV, a, a + count - 1)}, 1, tonumber(ARGV[2]))
  return a + count
end

-- stands tells whether the first of the due set is one of the messages told of.
local function stands(p, count, a)
  local first = redis.call('ZRANGE', due(p), 0, 0)[1]
  local id = first and first:sub(6)
  for i = a, a + count - 1 do
    if ARGV[i] == id then return true end
  end
  return false
end

function settle.a(p, count, a)
  if held[p + 1] and stands(p, count, a) then
    if count ~= tonumber(held[p + 1]) then error('count of messages in flight') end
    redis.call('ZREMRANGEBYRANK', due(p), 0, count - 1)
    redis.call('HDEL', owner, 'h' .. p)
    redis.call('HDEL', msg, unpack(ARGV, a, a + count - 1))
    if failed then redis.call('HDEL', attempts, unpack(ARGV, a, a + count - 1)) end
  else
    sweep({unpack(ARGV, a, a + count - 1)})
  end
  return a + count
end

function settle.d(p, count, a)
  prove()
  local ids, gone = {}, redis.call('ZREM', due(p), unpack(ARGV, a, a + count - 1))
  for i = 1, count do ids[i] = ARGV[a + i - 1]:sub(6) end
  if gone == 0 then
    sweep(ids)
  else
    removed(p, gone)
    redis.call('HDEL', msg, unpack(ids))
    if failed then redis.call('HDEL', attempts, unpack(ids)) end
  end
  return a + count
end

function settle.b(p, count, a)
  prove()
  local at = still_in_flight(p, count, a, 3)
  if #at == 0 then return a + 3 * count end
  local ids, old, members, records, failures = {}, {}, {}, {}, {}
  for i, k in ipairs(at) do old[i], ids[i] = ARGV[k], ARGV[k]:sub(6) end
  local stored = redis.call('HMGET', msg, unpack(ids))
  local seq = redis.call('HINCRBY', owner, 'seq', #at) - #at
  for i, k in ipairs(at) do
    local record, j, r = stored[i], #members, #records
    if record then
      local member = record:sub(-6, -2) .. ids[i]
      if member == old[i] then -- else a run that failed has renumbered it
        member, records[r + 2] = renumbered(ids[i], record, seq + i)
        records[r + 1] = ids[i]
      end
      members[j + 1], members[j + 2] = math.max(inflight, up + ARGV[k + 1]), member
      failures[j + 1], failures[j + 2] = ids[i], ARGV[k + 2]
    end
  end
  if #records > 0 then redis.call('HSET', msg, unpack(records)) end
  if #members > 0 then
    redis.call('ZADD', due(p), 'NX', unpack(members))
    redis.call('HSET', attempts, unpack(failures))
  end
  removed(p, redis.call('ZREM', due(p), unpack(old)))
  return a + 3 * count
end

function settle.x(p, count, a)
  prove()
  local at, members, deaths, failures = still_in_flight(p, count, a, 2), {}, {}, {}
  for i, k in ipairs(at) do
    local j, member = 2 * i, ARGV[k]
    members[i], deaths[j - 1], deaths[j] = member, now, member
    failures[j - 1], failures[j] = member:sub(6), ARGV[k + 1]
  end
  if #at > 0 then
    redis.call('ZADD', dead, unpack(deaths))
    redis.call('HSET', attempts, unpack(failures))
    removed(p, redis.call('ZREM', due(p), unpack(members)))
  end
  return a + 2 * count
end

if mine == took then
  local a = 6
  for _ = 1, tonumber(ARGV[5]) do
    a = settle[ARGV[a]](tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), a + 3)
  end
end
if mine > took or ARGV[4] == '0' then redis.call('HDEL', owner, 'inflight', unpack(fields)) end
return 1
