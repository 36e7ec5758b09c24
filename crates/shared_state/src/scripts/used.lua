-- used: orders were accepted, so their passes no longer stand for people who may still come.
--
-- KEYS  1 live passes (sorted set by deadline)   2 the room (hash), if the sale has one
-- ARGV  1 the version of the sale's status that shows the orders   then fingerprints of buyers
-- Reply live passes, some of which may be over
--
-- Guarantees: Reporting an order twice changes nothing.

for first = 2, #ARGV, 1000 do
  redis.call('ZREM', KEYS[1], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
local room = redis.call('HMGET', KEYS[2], 'seed', 'sale_version')
if room[1] and tonumber(ARGV[1]) > (tonumber(room[2]) or 0) then
  redis.call('HSET', KEYS[2], 'sale_version', ARGV[1])
end
return redis.call('ZCARD', KEYS[1])
