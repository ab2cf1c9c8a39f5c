-- Stands before the scripts that work on one message by its id.

-- find returns a table: state (waiting, delivering, dead, delivered, cancelled
-- or discarded), due (ms: when due, died or settled), and for a stored message
-- record, member, priority p and failure (its entry in attempts, or ''). It
-- returns nil if the id is neither stored nor remembered for window ms.
local settled = {'delivered', 'cancelled', 'discarded'}

local function find(id, window)
  local record = redis.call('HGET', msg, id)
  if not record then
    local mark = tonumber(redis.call('ZSCORE', done, id) or -1)
    local at = math.floor(mark / 4)
    if mark < 0 or at + window <= now then return nil end
    return {state = settled[mark % 4], due = at, failure = ''}
  end
  local m = {record = record, failure = redis.call('HGET', attempts, id) or ''}
  m.member = record:sub(-6, -2) .. id
  m.p = math.floor(record:byte(2) / 16)
  m.due = tonumber(redis.call('ZSCORE', due(m.p), m.member) or -1)
  if m.due < 0 then
    m.state = 'dead'
    m.due = tonumber(redis.call('ZSCORE', dead, m.member))
    return m
  end
  local taken = tonumber(redis.call('HGET', owner, 'h' .. m.p) or 0)
  m.state = 'waiting'
  if taken > 0 and redis.call('ZRANK', due(m.p), m.member) < taken then m.state = 'delivering' end
  return m
end

-- moved tells whether a stored message was moved since the caller has seen it, with
-- the sequence number seen: by another call, which this one must not undo, or a retry.
local function moved(m, seen) return m.record and m.member:sub(1, 5) ~= seen end

-- Bits of a record's last byte.
local function expires(record) return record:byte(-1) % 2 == 1 end
local function generated(record) return math.floor(record:byte(-1) / 2) % 2 == 1 end
