-- Stands before the scripts that need no more of a bucket than its ownership, as
-- bucket.lua does before the others: many buckets are renewed often.
--   KEYS[1] owner, see bucket.lua
local owner = KEYS[1]
local function allow_full() redis.call('HDEL', owner, '-') end
