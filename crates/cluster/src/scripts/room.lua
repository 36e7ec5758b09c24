-- room: makes a waiting room, or puts back one that this server has lost, as far as a node still knows it.
--
-- KEYS  1 the room (hash)
-- ARGV  1 the seed: 32 random bytes   2 when the sale opens, in milliseconds; 0 if it is open at once
--       3 numbers below may have been given out   4 early numbers, '' if that is not known
--       5 a version that no view had yet   6 the last view, '' if there was none
-- Reply the seed: of the room that was there, or the one given.
--
-- Guarantees: a room never gets another seed; if it has the one given, no number below ARGV[3] is handed out any more;
-- how many are early, and the view, are taken only by a room that is made.

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
-- A write in any case, so that whoever waits for the replicas hears of the seed from them.
call('EXPIRE', KEYS[1], SECONDS)
return room[1]
