-- Stands before every script that changes something, behind the clock.
--   ARGV[#ARGV - 1] when the call was sent, us on Redis's clock, or a little before
--   ARGV[#ARGV] for how long it holds, us
-- A call that was given up may still arrive: later than its answer, and later than
-- calls that were sent after it. Outside of its time it does nothing; the reply tells
-- Redis's clock, so that one that was only sent by a wrong clock can be sent again.
local sent, holds = tonumber(ARGV[#ARGV - 1]), tonumber(ARGV[#ARGV])
local function late() return redis.error_reply('LATE ' .. string.format('%.0f', micros)) end
if micros < sent or micros > sent + holds then return late() end
