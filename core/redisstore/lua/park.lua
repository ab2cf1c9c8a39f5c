-- Makes messages durable, in order. Touches nothing for those it refuses.
--   ARGV[1] own wake channel   ARGV[2] number of the bucket
--   ARGV[3] dedupe window, ms  ARGV[4] + 1: write something even if all are duplicates,
--           so that a WAIT behind this covers the message that is there already;
--           + 2: some record is large
--   then runs of messages of one kind (at most 500 messages in all), each run:
--     kind: 2 if the ids were generated, + 1 if they expire; priority; count
--     kind 2: the sequence number that the first has if the caller guessed right;
--       for each message id, record; then for each message due, member
--     else: for each message id, due, payload; with expiry also that
--   Times are ms of the epoch if >= 0, and -1-ms from now if < 0.
--   A generated id is not looked for: nobody else makes it, and whoever was told it can
--   repeat it only when this call has run or holds no more, see deadline.lua.
--   So its message can come ready to be stored, which halves the work here. If
--   another has parked meanwhile, the guess is wrong and the numbers are put right.
-- Reply: {1 if the caller is to wake its own loop, else 0; now in us;
--   ms that a due time is at least; the last number given; then for each message that was
--   not parked: its position from 0, and {state, due, failure} of the same message, with
--   the record if the caller is to compare, as that is of another format or differs by
--   little, or {} for a conflict}
local call, char, floor, argv = redis.call, string.char, math.floor, ARGV
local window = tonumber(argv[3])
local o = call('HMGET', owner, 'seq', 'prio', 'inflight')
local seq, prio, inflight = tonumber(o[1] or 0), tonumber(o[2] or 0), tonumber(o[3] or 0)
-- A past time is now; and what is in flight stays in front.
local least = math.max(now, inflight)

local function expiry_bytes(ms)
  if ms < 0 then ms = up - ms - 1 end
  return char(floor(ms / 1099511627776), floor(ms / 4294967296) % 256) .. bytes4(ms % 4294967296)
end

-- resolve makes the due time of an argument: as a string, which spares Redis
-- from printing the number for each message.
local resolved, earliest = {}, nil
local function resolve(arg)
  local at, text = tonumber(arg), arg
  if at < 0 then at, text = up - at - 1, nil end
  if at < least then at, text = least, nil end
  text = text or string.format('%.0f', at)
  if not earliest or at < earliest then earliest = at end
  resolved[arg] = text
  return text
end

local records, r, reply, fresh, same, compare = {}, 0, {0, micros, least, 0}, {}, {}, {}

-- standing tells of one run which ids are taken: id -> record, or true if it
-- was settled within the window. What was settled after this call was sent is the
-- same message, which another copy of the call has brought here: then the call is late.
local overtaken = false
local function standing(first, last, width)
  local ids, taken = {}, {}
  for i = first, last, width do ids[#ids + 1] = argv[i] end
  local stored = call('HMGET', msg, unpack(ids))
  local marks = call('EXISTS', done) == 1 and call('ZMSCORE', done, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    local mark = tonumber(marks[i] or -1)
    local at = floor(mark / 4)
    taken[id] = stored[i] or fresh[id] or mark >= 0 and at + window > now
    if not taken[id] and mark >= 0 and (at + 1) * 1000 > sent then overtaken = true end
  end
  return taken
end

-- varying is by how much what is no content can change the size of a payload: two options
-- that hold times, of at most 1024 bytes with their names, and the headers of tracing, of
-- 8 KiB by their standards.
local varying = 2100 + 9 * 1024

-- repeated answers for an id that is taken.
local function repeated(position, id, record, payload)
  reply[#reply + 1] = position
  reply[#reply + 1] = {}
  if record ~= true then
    local stored = record:sub(1, record:byte(-1) % 2 == 1 and -13 or -7)
    if stored ~= payload then -- of another format, or with other times or traces: the caller compares
      if stored:byte(1) == payload:byte(1) and math.abs(#stored - #payload) > varying then return end
      compare[#reply] = true
    end
  end
  same[#reply] = id
end

local touched, dues, position = prio, {}, 0
local page, head4 = -1, nil -- what sequence numbers share, but for the last byte

local function next_number()
  seq = seq + 1
  local low = seq % 256
  if (seq - low) / 256 ~= page then
    page = (seq - low) / 256
    head4 = bytes4(page)
  end
  return head4 .. char(low)
end

-- dues_of is where the members of a priority are gathered.
local function dues_of(p)
  if p > touched then touched = p end
  dues[p] = dues[p] or {}
  return dues[p]
end

-- ready takes a run of kind 2 and returns where it ends.
local function ready(a, p, count)
  local d, from, members = dues_of(p), a + 4, a + 4 + 2 * count
  local final = members + 2 * count - 1
  if tonumber(argv[a + 3]) == seq + 1 then
    seq = seq + count
  else
    for i = 0, 2 * count - 2, 2 do
      local number = next_number()
      argv[from + i + 1] = argv[from + i + 1]:sub(1, -7) .. number .. char(2)
      argv[members + i + 1] = number .. argv[from + i]
    end
  end
  local z = #d
  for i = members, final, 2 do
    local due_arg = argv[i]
    d[z + 1], d[z + 2] = resolved[due_arg] or resolve(due_arg), argv[i + 1]
    z = z + 2
  end
  return from, final
end

-- other takes a run of another kind and returns where it ends.
local function other(a, kind, p, count)
  local width = 3 + kind % 2
  local first, final = a + 3, a + 2 + count * width
  local taken, tail, d = kind < 2 and standing(first, final, width) or {}, char(kind), dues_of(p)
  for i = first, final, width do
    local id, payload = argv[i], argv[i + 2]
    if taken[id] then
      repeated(position, id, taken[id], payload)
    else
      local number, expiry = next_number(), width == 4 and expiry_bytes(tonumber(argv[i + 3])) or ''
      local record = payload .. expiry .. number .. tail
      if kind < 2 then taken[id] = record; fresh[id] = record end
      records[r + 1], records[r + 2] = id, record
      r = r + 2
      d[#d + 1] = resolved[argv[i + 1]] or resolve(argv[i + 1])
      d[#d + 1] = number .. id
    end
    position = position + 1
  end
  return final
end

local ready_runs = {}
local a, last = 5, #argv - 2
while a <= last do
  local kind, p, count = tonumber(argv[a]), tonumber(argv[a + 1]), tonumber(argv[a + 2])
  if kind == 2 then
    local from, final = ready(a, p, count)
    ready_runs[#ready_runs + 1] = {from, from + 2 * count - 1}
    position = position + count
    a = final + 1
  else
    a = other(a, kind, p, count) + 1
  end
end

if overtaken then return late() end

if earliest then
  local before = head(touched)
  for _, run in ipairs(ready_runs) do call('HSET', msg, unpack(argv, run[1], run[2])) end
  if r > 0 then call('HSET', msg, unpack(records)) end
  for p, d in pairs(dues) do
    if #d > 0 then call('ZADD', due(p), unpack(d)) end
  end
  call('HSET', owner, 'seq', seq, 'prio', touched)
  if tonumber(argv[4]) >= 2 then call('HSET', owner, 'large', 1) end
  reply[1] = wake(before, earliest, argv[1], argv[2])
elseif argv[4] % 2 == 1 then
  call('HINCRBY', owner, 'touch', 1)
end
reply[4] = seq
for at, id in pairs(same) do
  local m = find(id, window)
  reply[at] = {m.state, m.due, m.failure, compare[at] and m.record}
end
return reply
