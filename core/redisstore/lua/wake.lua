-- Stands before the scripts that can make something due earlier.

-- head returns the earliest due time in the bucket, or nil.
local function head(prio)
  local first
  for p = 0, prio do
    local e = redis.call('ZRANGE', due(p), 0, 0, 'WITHSCORES')
    if e[2] and (not first or tonumber(e[2]) < first) then first = tonumber(e[2]) end
  end
  return first
end

-- wake tells the bucket's owner that score came before first. It returns 1 if
-- the owner is the caller itself, whose channel is own, and 0 otherwise. The
-- wake-up is counted, as it may be lost: the owner compares when it renews.
local function wake(first, score, own, number)
  if first and score >= first then return 0 end
  local channel = redis.call('HGET', owner, 'wake')
  if not channel or channel == '' then return 0 end
  redis.call('HINCRBY', owner, 'wakes', 1)
  if channel == own then return 1 end
  redis.call('PUBLISH', channel, number)
  return 0
end
