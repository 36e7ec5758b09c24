-- room: makes a waiting room, or restores one that this server has lost, as far as a node still knows it.
--
-- KEYS  1 the room (hash)
-- ARGV  1 the seed: 32 random bytes   2 when the sale opens, in milliseconds; 0 if it is open at once
--       3 numbers below may have been given out   4 early numbers, '' if not known
--       5 a version that no view has had   6 the last view, '' if there was none
-- Reply the seed of the existing room, or the one given
--
-- Guarantees: A room never gets another seed. If the seed matches, no number below ARGV[3] is handed out from
-- now on. The early numbers and the view are taken only when the room is made.

local call = redis.call
local SECONDS = 30 * 86400

local is_new = call('HSETNX', KEYS[1], 'seed', ARGV[1]) == 1
if is_new then
  call('HSET', KEYS[1], 'opens_at', ARGV[2], 'next', 0)
  if ARGV[4] ~= '' then
    call('HSET', KEYS[1], 'early', ARGV[4])
  end
  if ARGV[6] ~= '' then
    call('HSET', KEYS[1], 'view', ARGV[6], 'version', ARGV[5])
  end
end
local room = call('HMGET', KEYS[1], 'seed', 'next')
if room[1] == ARGV[1] and tonumber(room[2]) < tonumber(ARGV[3]) then
  call('HSET', KEYS[1], 'next', ARGV[3])
end
-- Always write, so that WAIT tells whether the replicas have the seed.
call('EXPIRE', KEYS[1], SECONDS)
return room[1]
