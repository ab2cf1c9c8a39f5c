-- Lists members in order of due time, from a lower bound on.
--   ARGV[1] 'due' or 'dead'  ARGV[2] how many at most of each set
--   ARGV[3] lowest due time, ms
--   ARGV[4] the due time that the page before ended at, or ''; then
--   ARGV[5] 1 if it ended in a bucket before this one, 0 in this one, -1 in one behind
--   ARGV[6] where in this bucket: the priority  ARGV[7] and the sequence number
-- So that what has that very due time is neither repeated nor left out.
-- Reply: now in ms, then for each set that has some, from priority 9 to 0 (dead: one set)
--   {priority, how many of the set are in flight, rank of the first, {member, due, ...}}
local limit = tonumber(ARGV[2])

local function number(member)
  local v = 0
  for i = 1, 5 do v = v * 256 + member:byte(i) end
  return v
end

-- behind returns the rank of the first member with due time at and a
-- sequence number above seq.
local function behind(key, at, seq)
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. at)
  local high = low + redis.call('ZCOUNT', key, at, at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if number(redis.call('ZRANGE', key, middle, middle)[1]) > seq then high = middle else low = middle + 1 end
  end
  return low
end

local function start(key, p)
  local from = ARGV[3] == '0' and 0 or redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[3])
  if ARGV[4] == '' then return from end
  local at, side, level = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
  if side == 0 then side = level - p end
  local rank
  if side == 0 then
    rank = behind(key, at, tonumber(ARGV[7]))
  elseif side > 0 then
    rank = redis.call('ZCOUNT', key, '-inf', '(' .. at)
  else
    rank = redis.call('ZCOUNT', key, '-inf', at)
  end
  return math.max(from, rank)
end

local reply = {now}
local function add(key, p, taken)
  local from = start(key, p)
  local members = redis.call('ZRANGE', key, from, from + limit - 1, 'WITHSCORES')
  if #members > 0 then reply[#reply + 1] = {p, taken, from, members} end
end

if ARGV[1] == 'dead' then
  add(dead, 0, 0)
else
  local o = redis.call('HMGET', owner, 'prio', 'h0', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'h7', 'h8', 'h9')
  for p = tonumber(o[1] or 0), 0, -1 do add(due(p), p, tonumber(o[p + 2] or 0)) end
end
return reply
