-- Announces which formats an instance reads, and tells in which one it is to write.
-- The latter is the newest that every live instance reads, within the pin; it falls
-- by a pin only (pin.lua). It is decided where the announcement is made, so that
-- nobody starts to write what another, who has just started, can't read.
--   KEYS[1] meta  hash  buckets; format: the newest ever written; features: those of it
--                       writes: the format that is written now, if it is older; pin
--                       reads:<instance>: "oldest newest writes until (ms)"
--   KEYS[2] reports  hash  instance -> "told at (ms) report", of some that are in meta
--   ARGV[1] instance  ARGV[2] oldest and  ARGV[3] newest format that it reads
--   ARGV[4] ms for which that counts; 0: it leaves, or, without a name, only asks
--   ARGV[5] number of buckets, at the first start
--   ARGV[6] features of the formats 1 to the newest, separated by commas
--   ARGV[7] what the instance tells about itself, or ''
-- Reply: {1, or 0 if the instance can't write what is to be written;
--   format written, newest ever written, pin or 0, buckets, then those alive: name, value, ...}
local meta = KEYS[1]
local oldest, newest, alive = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local own = 'reads:' .. ARGV[1]
local m, all, stale, live = {}, redis.call('HGETALL', meta), {own, '-'}, {}
local known = false -- this instance is in meta
local common = alive > 0 and newest or math.huge
for i = 1, #all, 2 do
  local field, value = all[i], all[i + 1]
  local reads, till = value:match('^%d+ (%d+) %d+ (%d+)$')
  if field:sub(1, 6) ~= 'reads:' then
    m[field] = value
  elseif field == own then
    known = true
  elseif not till or tonumber(till) < now then
    stale[#stale + 1] = field
  else
    common = math.min(common, tonumber(reads))
    live[#live + 1], live[#live + 2] = field:sub(7), value
  end
end
local format, pin = tonumber(m.format or 0), tonumber(m.pin or 0)
if not format or not pin then return redis.error_reply('ERR ' .. meta .. ' is damaged') end
local writes = tonumber(m.writes or format)
if alive > 0 then
  if pin > 0 then common = math.min(common, pin) end
  writes = math.max(writes, common)
end
local can = newest >= writes and oldest <= writes
redis.call('HDEL', meta, unpack(stale, 1, math.min(#stale, 1000))) -- first, so that it works on a full Redis, too
if alive > 0 then
  if writes > format then
    format = writes
    redis.call('HSET', meta, 'format', format, 'features', ARGV[6])
  end
  local value = oldest .. ' ' .. newest .. ' ' .. writes .. ' ' .. now + alive
  redis.call('HSET', meta, own, value)
  if writes < format then redis.call('HSET', meta, 'writes', writes) else redis.call('HDEL', meta, 'writes') end
  redis.call('HSETNX', meta, 'buckets', ARGV[5])
  live[#live + 1], live[#live + 2] = ARGV[1], value
end
if alive > 0 and ARGV[7] ~= '' then
  redis.call('HSET', KEYS[2], ARGV[1], now .. ' ' .. ARGV[7])
else
  redis.call('HDEL', KEYS[2], ARGV[1])
end
if known ~= (alive > 0) or #stale > 2 then -- one has come or gone
  local alive, gone, told = {}, {'-'}, redis.call('HGETALL', KEYS[2])
  for i = 1, #live, 2 do alive[live[i]] = true end
  for i = 1, #told, 2 do
    if not alive[told[i]] then gone[#gone + 1] = told[i] end
  end
  redis.call('HDEL', KEYS[2], unpack(gone, 1, math.min(#gone, 1000)))
end
local reply = {can and 1 or 0, writes, format, pin, tonumber(m.buckets or ARGV[5])}
for i = 1, #live do reply[#reply + 1] = live[i] end
return reply
