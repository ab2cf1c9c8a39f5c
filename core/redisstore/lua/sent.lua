-- Removes what unsent.lua has read, when it is elsewhere. What is not there any more was
-- removed by another owner, who has sent it, too.
--   ARGV[1] lines that could not be kept, as they were told  ARGV[2] number of entries
--   then for each: id, bytes
-- Reply: 1.
allow_full()
for i = 3, 2 * ARGV[2] + 1, 2 do
  if redis.call('XDEL', events, ARGV[i]) == 1 then
    if redis.call('HINCRBY', owner, 'told', -ARGV[i + 1]) <= 0 then redis.call('HDEL', owner, 'told') end
  end
end
if ARGV[1] ~= '0' and redis.call('HINCRBY', owner, 'untold', -ARGV[1]) <= 0 then redis.call('HDEL', owner, 'untold') end
return 1
