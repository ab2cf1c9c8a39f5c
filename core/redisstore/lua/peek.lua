-- Reads messages without their bodies.
--   ARGV[1] how many bytes of each record to give  ARGV[2..] ids (at most 500)
-- Reply: for each {first bytes of the record, its last 12 bytes, its length, failure or ''},
-- or {} if it is gone.
local reply = {}
for i = 2, #ARGV do
  local record = redis.call('HGET', msg, ARGV[i])
  if record then
    reply[i - 1] = {record:sub(1, tonumber(ARGV[1])), record:sub(-12), #record, redis.call('HGET', attempts, ARGV[i]) or ''}
  else
    reply[i - 1] = {}
  end
end
return reply
