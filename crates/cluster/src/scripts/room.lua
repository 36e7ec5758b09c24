-- room: makes a waiting room, unless there is one.
--
-- KEYS  1 the room (hash)
-- ARGV  1 32 random bytes   2 when the sale opens, in milliseconds; 0 if it is open at once
-- Reply the seed: of the room that was there, or the one given.

if redis.call('HSETNX', KEYS[1], 'seed', ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], 'opens_at', ARGV[2], 'next', 0)
end
return redis.call('HGET', KEYS[1], 'seed')
