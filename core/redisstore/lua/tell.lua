-- Stands before the scripts after which a message is final.

-- tell keeps lines about what became of messages in the stream events, until they are
-- sent elsewhere, see unsent.lua. What the script itself does never depends on it: lines
-- for which there is no room, or no right, are only counted. It comes after a first write
-- that needs no memory, so that a full Redis keeps them, too.
--   lines '' if nothing is to be told  count of them  most: bytes that may wait, but for one entry
local function tell(lines, count, most)
  if lines == '' then return end
  local waiting = tonumber(redis.call('HGET', owner, 'told') or 0)
  if redis.pcall('XLEN', events) == 0 then waiting = 0 end -- someone may have removed it
  local kept = (waiting == 0 or waiting + #lines <= most) and redis.pcall('XADD', events, '*', 'n', count, 'l', lines)
  if type(kept) == 'string' then
    redis.call('HSET', owner, 'told', waiting + #lines)
  else
    redis.call('HINCRBY', owner, 'untold', count)
  end
end
