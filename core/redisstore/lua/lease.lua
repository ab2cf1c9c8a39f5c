-- Stands before the scripts that need no more of a bucket than its lease, as bucket.lua
-- does before the others: many buckets are renewed often.
local function allow_full(owner) redis.call('HDEL', owner, '-') end
