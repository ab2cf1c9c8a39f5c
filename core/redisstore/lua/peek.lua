-- Reads messages without their bodies.
--   ARGV[1..] ids (at most 500)
-- Reply: for each {the record up to its body, its last 12 bytes, its length, failure or ''},
-- or {} if it is gone.

-- head returns the bytes of a record before its body; record.go has the format. Where
-- the body of another format begins is not known here.
local function head(record)
  if record:byte(1) ~= 1 then return record:sub(1, 65536) end
  local at = 1
  local function length()
    local n, scale, byte = 0, 1, nil
    repeat
      byte = record:byte(at) or 0
      n, scale, at = n + byte % 128 * scale, scale * 128, at + 1
    until byte < 128
    return n
  end
  local function skip() at = length() + at end
  local flags = record:byte(2) or 0
  at = 3
  skip() -- topic
  if flags % 2 == 1 then skip() end -- key
  if math.floor(flags / 2) % 2 == 1 then
    for _ = 1, length() do
      if at > #record then break end
      skip()
      at = math.max(length() - 1, 0) + at
    end
    for _ = 1, length() do
      if at > #record then break end
      skip()
      skip()
    end
  end
  return record:sub(1, at - 1)
end

local records = redis.call('HMGET', msg, unpack(ARGV))
local failures = redis.call('HMGET', attempts, unpack(ARGV))
for i, record in ipairs(records) do
  records[i] = record and {head(record), record:sub(-12), #record, failures[i] or ''} or {}
end
return records
