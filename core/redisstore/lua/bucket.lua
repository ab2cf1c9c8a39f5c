-- Stands before every script of a bucket, behind the clock: names its keys.
-- All keys of a bucket share the hash tag {sink:nn}, so they lie in one slot.
--
--   KEYS[1]    owner     hash  token, until (ms), wake (channel): the lease
--                              wakes: how often its owner was woken
--                              seq: the last sequence number; prio: highest priority used
--                              large: some record was larger than 64 KiB
--                              inflight: highest due time handed out; h0..h9: how many of each
--                              priority are in flight; took: number of the last take that
--                              handed some out. No inflight: nothing is
--   KEYS[2]    msg       hash  id -> record (payload [expiry 6] seq 5 trailer 1)
--   KEYS[3]    attempts  hash  id -> "attempts deliver_at reason\nerror", only ids that failed
--   KEYS[4]    dead      zset  member -> ms of death
--   KEYS[5]    done      zset  id -> ms of settling * 4 + 1 delivered, 2 cancelled, 3 discarded
--   KEYS[6..15] due      zset  member -> ms when due, for priorities 0 to 9
--   KEYS[16]   events    stream  n, l: lines about n final messages, until they are sent
--                              elsewhere; told and untold in owner: bytes that wait there, and
--                              lines that could not be kept. Only if Config.Final is set
--
-- A member is the sequence number, 5 bytes big-endian, and the id: so equal
-- due times sort by acceptance. What is in flight is the first h<p> members of
-- each due set; nothing may be added before those, see 'inflight' in park.lua.
local owner, msg, attempts, dead, done, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[16]
local function due(p) return KEYS[6 + p] end

-- A Redis whose memory is full refuses the first write of a script if it may
-- need memory, but none after. Scripts that must run also then, so that a full
-- Redis can be drained, begin with this write, which does nothing.
local function allow_full() redis.call('HDEL', owner, '-') end
