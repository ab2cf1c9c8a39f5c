-- Counts what is due when.
--   ARGV[1] when the first step begins, ms  ARGV[2] length of a step, ms
--   ARGV[3] how many steps
-- Reply: how many are due {before the first step, in it, ..., in the last, after it}
local from, step, steps = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local counts = {}
for i = 1, steps + 2 do counts[i] = 0 end
local function ms(v) return string.format('%.0f', v) end

-- split counts the n members of a set that are due in the steps from first to last. It
-- looks into halves, so that a time in which nothing is due costs nothing.
local function split(key, first, last, n)
  if n == 0 then return end
  if first == last then
    counts[first + 1] = counts[first + 1] + n
    return
  end
  local middle = math.floor((first + last) / 2)
  local left = redis.call('ZCOUNT', key, ms(from + (first - 1) * step), '(' .. ms(from + middle * step))
  split(key, first, middle, left)
  split(key, middle + 1, last, n - left)
end

for p = 0, tonumber(redis.call('HGET', owner, 'prio') or 0) do
  local all = redis.call('ZCARD', due(p))
  if all > 0 then
    local before = redis.call('ZCOUNT', due(p), '-inf', '(' .. ms(from))
    local within = redis.call('ZCOUNT', due(p), ms(from), '(' .. ms(from + steps * step))
    counts[1] = counts[1] + before
    split(due(p), 1, steps, within)
    counts[steps + 2] = counts[steps + 2] + all - before - within
  end
end
return counts
