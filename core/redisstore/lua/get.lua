-- Reads a message by its id.
--   ARGV[1] id  ARGV[2] dedupe window, ms
-- Reply: {} if there is none; else {state, due, failure, record or ''}.
local m = find(ARGV[1], tonumber(ARGV[2]))
if not m then return {} end
return {m.state, m.due, m.failure, m.record or ''}
