-- Says that an instance is alive, and which buckets of the sink fall to it. The
-- plan changes only with who is alive: then each gets as many buckets as the others,
-- or one more, and no bucket moves that need not. An instance that comes takes only
-- its own share, and of one that goes only its own share moves.
--   KEYS[1] live  zset  instance -> ms until which it counts as alive
--   KEYS[2] plan  hash  instance -> numbers of its buckets
--   ARGV[1] instance  ARGV[2] ms that it counts from now; 0: it leaves
--   ARGV[3] how many buckets there are  ARGV[4] channel of the sink's instances
--   ARGV[5] 1: the reply names the instances, too
-- Reply: {the numbers of the buckets that fall to the instance, name, name, ...}.
local me, alive, buckets = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

-- share gives the free buckets to those that lack some. Who has one more than
-- others goes by a hash, so that it is another instance in each sink.
local function share(live, had)
  local order, rank, lists, taken = {}, {}, {}, {}
  for i, name in ipairs(live) do order[i], rank[name] = name, redis.sha1hex(KEYS[1] .. ' ' .. name) end
  table.sort(order, function(a, b) return rank[a] < rank[b] end)
  local least, more = math.floor(buckets / #order), buckets % #order
  for i, name in ipairs(order) do
    local list = {}
    for text in (had[name] or ''):gmatch('%d+') do
      local n = tonumber(text)
      if #list < least + (i <= more and 1 or 0) and n < buckets and not taken[n] then
        taken[n], list[#list + 1] = true, n
      end
    end
    lists[i] = list
  end
  local free = 0
  for i, list in ipairs(lists) do
    while #list < least + (i <= more and 1 or 0) do
      while taken[free] do free = free + 1 end
      taken[free], list[#list + 1] = true, free
    end
  end
  return order, lists
end

local before = redis.call('ZSCORE', KEYS[1], me)
local changed = redis.call('ZCOUNT', KEYS[1], '-inf', now - 1) > 0 or (before ~= false) ~= (alive > 0)
  or redis.call('EXISTS', KEYS[2]) == 0
redis.call('ZREM', KEYS[1], me) -- first, so that it works on a full Redis, too
if alive > 0 then redis.call('ZADD', KEYS[1], now + alive, me) end
if changed then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 1)
  local had, plan = {}, redis.call('HGETALL', KEYS[2])
  for i = 1, #plan, 2 do had[plan[i]] = plan[i + 1] end
  local order, lists = share(redis.call('ZRANGE', KEYS[1], 0, 999), had)
  for i, name in ipairs(order) do
    redis.call('HSET', KEYS[2], name, table.concat(lists[i], ' '))
    had[name] = nil
  end
  for name in pairs(had) do redis.call('HDEL', KEYS[2], name) end
  redis.call('PUBLISH', ARGV[4], me)
end
local reply = ARGV[5] == '1' and redis.call('ZRANGE', KEYS[1], 0, 999) or {}
table.insert(reply, 1, redis.call('HGET', KEYS[2], me) or '')
return reply
