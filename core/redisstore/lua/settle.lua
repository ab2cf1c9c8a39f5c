-- Tells what became of the messages in hand. What is not named goes back untouched.
-- Running it twice does no harm: the second time nothing is in hand.
--   ARGV[1] token  ARGV[2] dedupe window, ms  ARGV[3] number of groups
--   then for each group: how, priority, count, and count times its items:
--     how 'd' delivered, forget: member
--     how 'r' delivered, remember: member
--     how 'b' back: member, ms from now, failure ('' keeps what is there)
--     how 'x' dead: member, failure
-- At most 500 items. Reply: 1, or 0 if the token does not own the bucket any more.
if redis.call('HGET', owner, 'token') ~= ARGV[1] then return 0 end
local held = redis.call('HMGET', owner, 'hand', 'prio')
if not held[1] then return 1 end
local up = math.ceil(micros / 1000)
local fields = {'hand'}
for p = 0, tonumber(held[2] or 0) do fields[#fields + 1] = 'h' .. p end
redis.call('HDEL', owner, unpack(fields)) -- first: see allow_full
local a = 4

local function delivered(p, count, remember)
  local members, ids, marks = {}, {}, {}
  for i = 1, count do
    local member = ARGV[a + i - 1]
    members[i], ids[i] = member, member:sub(6)
    marks[2 * i - 1], marks[2 * i] = now * 4 + 1, ids[i]
  end
  a = a + count
  redis.call('ZREM', due(p), unpack(members))
  redis.call('HDEL', msg, unpack(ids))
  if redis.call('EXISTS', attempts) == 1 then redis.call('HDEL', attempts, unpack(ids)) end
  if remember then redis.call('ZADD', done, unpack(marks)) end
end

for _ = 1, tonumber(ARGV[3]) do
  local how, p, count = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  a = a + 3
  if how == 'd' or how == 'r' then
    delivered(p, count, how == 'r')
  elseif how == 'b' then
    for _ = 1, count do
      local member, after, failure = ARGV[a], tonumber(ARGV[a + 1]), ARGV[a + 2]
      a = a + 3
      local id = member:sub(6)
      local record = redis.call('HGET', msg, id)
      if redis.call('ZREM', due(p), member) == 1 and record then
        accept_anew({member = member, p = p}, record, up + after)
      end
      if failure ~= '' then redis.call('HSET', attempts, id, failure) end
    end
  else
    for _ = 1, count do
      local member, failure = ARGV[a], ARGV[a + 1]
      a = a + 2
      redis.call('ZREM', due(p), member)
      redis.call('ZADD', dead, now, member)
      redis.call('HSET', attempts, member:sub(6), failure)
    end
  end
end

local old = redis.call('ZRANGEBYSCORE', done, '-inf', (now - ARGV[2]) * 4, 'LIMIT', 0, 1000)
if #old > 0 then redis.call('ZREM', done, unpack(old)) end
return 1
