-- Reads what tell.lua has kept, the oldest first.
--   ARGV[1] bytes after which it stops
-- Reply: {how many lines could not be kept, id, lines, id, lines, ...}
local reply, room, from = {tonumber(redis.call('HGET', owner, 'untold') or 0)}, tonumber(ARGV[1]), '-'
while room > 0 do
  local entries = redis.call('XRANGE', events, from, '+', 'COUNT', 4)
  for _, entry in ipairs(entries) do
    local lines = entry[2][4]
    reply[#reply + 1], reply[#reply + 2] = entry[1], lines
    room, from = room - #lines, '(' .. entry[1]
  end
  if #entries == 0 then break end
end
return reply
