-- Stands before the scripts that give out sequence numbers.

-- bytes4 is a number below 2^32 in four bytes, big-endian.
local function bytes4(v)
  return string.char(math.floor(v / 16777216), math.floor(v / 65536) % 256, math.floor(v / 256) % 256, v % 256)
end

-- renumbered returns the member and the record of a stored message under another number.
local function renumbered(id, record, seq)
  local number = bytes4(math.floor(seq / 256)) .. string.char(seq % 256)
  return number .. id, record:sub(1, -7) .. number .. record:sub(-1)
end

-- accept_anew gives a found message a new number and a new due time, behind
-- what is in flight, and returns that time. The old member must be gone.
local function accept_anew(m, record, at)
  local o = redis.call('HMGET', owner, 'inflight')
  if o[1] and at < tonumber(o[1]) then at = tonumber(o[1]) end
  local id = m.member:sub(6)
  local member, moved = renumbered(id, record, redis.call('HINCRBY', owner, 'seq', 1))
  redis.call('HSET', msg, id, moved)
  redis.call('ZADD', due(m.p), at, member)
  return at
end
