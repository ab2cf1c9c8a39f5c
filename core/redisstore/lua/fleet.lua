-- Lists the live instances, and what each has told about itself.
--   KEYS[1] meta  KEYS[2] reports, see format.lua
-- Reply: for each {name, ms since it told or -1 if it told nothing, what it told}
local meta, all, told, reply = redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]), {}, {}
for i = 1, #all, 2 do told[all[i]] = all[i + 1] end
for i = 1, #meta, 2 do
  local name, till = meta[i]:match('^reads:(.+)$'), meta[i + 1]:match('^%d+ %d+ %d+ (%d+)$')
  if name and till and tonumber(till) >= now then
    local at, report = (told[name] or ''):match('^(%d+) (.+)$')
    reply[#reply + 1] = {name, at and math.max(0, now - at) or -1, report or ''}
  end
end
return reply
