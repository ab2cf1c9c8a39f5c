-- Tells what became of the messages in hand. What is not named goes back untouched.
-- Running it twice does no harm: the second time nothing is in hand, or something
-- else is. That has another number: a higher one if this call comes late, and
-- nothing is done; a lower one if a failover has taken back the take that this
-- call is of, and what is in hand goes back.
--   ARGV[1] token  ARGV[2] dedupe window, ms  ARGV[3] number of the take
--   ARGV[4] number of groups
--   then for each group: how, priority, count, and count times its items:
--     how 'a' all of the priority that is in hand is delivered: id
--     how 'd' delivered: member
--     how 'm' ids to remember as delivered, besides: id
--     how 'b' back: member, ms from now, failure
--     how 'x' dead: member, failure
-- At most 1000 items. Reply: 1, or 0 if the token does not own the bucket any more.
if redis.call('HGET', owner, 'token') ~= ARGV[1] then return 0 end
local held = redis.call('HMGET', owner, 'hand', 'prio', 'h0', 'took')
local mine, took = tonumber(ARGV[3]), tonumber(held[4] or 0)
if not held[1] or mine < took then return 1 end
local up = math.ceil(micros / 1000)
local fields, in_hand = {'hand'}, {[0] = held[3]}
for p = 0, tonumber(held[2] or 0) do
  fields[#fields + 1] = 'h' .. p
  if p > 0 then in_hand[p] = redis.call('HGET', owner, 'h' .. p) end
end
redis.call('HDEL', owner, unpack(fields)) -- first: see allow_full
if mine > took then return 1 end
local failed = redis.call('EXISTS', attempts) == 1

local settle = {}

function settle.a(p, count, a)
  if count ~= tonumber(in_hand[p] or 0) then error('count of messages in hand') end
  redis.call('ZREMRANGEBYRANK', due(p), 0, count - 1)
  redis.call('HDEL', msg, unpack(ARGV, a, a + count - 1))
  if failed then redis.call('HDEL', attempts, unpack(ARGV, a, a + count - 1)) end
  return a + count
end

function settle.d(p, count, a)
  local ids = {}
  for i = 1, count do ids[i] = ARGV[a + i - 1]:sub(6) end
  redis.call('ZREM', due(p), unpack(ARGV, a, a + count - 1))
  redis.call('HDEL', msg, unpack(ids))
  if failed then redis.call('HDEL', attempts, unpack(ids)) end
  return a + count
end

function settle.m(_, count, a)
  remember({unpack(ARGV, a, a + count - 1)}, 1, tonumber(ARGV[2]))
  return a + count
end

function settle.b(p, count, a)
  for _ = 1, count do
    local member, after, failure = ARGV[a], tonumber(ARGV[a + 1]), ARGV[a + 2]
    local id = member:sub(6)
    local record = redis.call('HGET', msg, id)
    if redis.call('ZREM', due(p), member) == 1 and record then
      accept_anew({member = member, p = p}, record, up + after)
    end
    redis.call('HSET', attempts, id, failure)
    a = a + 3
  end
  return a
end

function settle.x(p, count, a)
  for _ = 1, count do
    local member, failure = ARGV[a], ARGV[a + 1]
    redis.call('ZREM', due(p), member)
    redis.call('ZADD', dead, now, member)
    redis.call('HSET', attempts, member:sub(6), failure)
    a = a + 2
  end
  return a
end

local a = 5
for _ = 1, tonumber(ARGV[4]) do
  a = settle[ARGV[a]](tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), a + 3)
end
return 1
