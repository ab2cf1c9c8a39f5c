-- Takes the lease of the bucket if nobody has it. What the owner before had in
-- flight goes back with an attempt more: it may be what ended that owner. That is the
-- one attempt that is not counted in core/attempts.go.
--   ARGV[1] token  ARGV[2] wake channel  ARGV[3] ms that the lease lasts
-- Reply: 1, or 0 if another owns it.
local o = redis.call('HMGET', owner, 'token', 'until', 'inflight', 'prio')
local till = tonumber(o[2] or 0)
if o[1] and o[1] ~= '' and o[1] ~= ARGV[1] and till >= now then return 0 end
allow_full()
if o[1] ~= ARGV[1] then redis.call('HDEL', owner, 'took') end -- takes are numbered again
if o[3] then
  for p = 0, tonumber(o[4] or 0) do
    local n = tonumber(redis.call('HGET', owner, 'h' .. p) or 0)
    local e = n > 0 and redis.call('ZRANGE', due(p), 0, n - 1, 'WITHSCORES') or {}
    for i = 1, #e, 2 do
      local id = e[i]:sub(6)
      local failure = redis.call('HGET', attempts, id) or '0 ' .. e[i + 1]
      local count, at = failure:match('^(%d+) (%d+)')
      redis.call('HSET', attempts, id, (count + 1) .. ' ' .. at .. ' crashed\nattempt was cut off')
    end
    redis.call('HDEL', owner, 'h' .. p)
  end
  redis.call('HDEL', owner, 'inflight')
end
redis.call('HSET', owner, 'token', ARGV[1], 'wake', ARGV[2], 'until', now + ARGV[3], 'wakes', 0)
return 1
