-- Stands at the head of every script: Redis's clock, us and ms.
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
