-- Stands at the head of every script: Redis's clock, us and ms. What counts from now
-- counts from up, as fractions of a millisecond are rounded up: nothing is early.
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now, up = math.floor(micros / 1000), math.ceil(micros / 1000)
