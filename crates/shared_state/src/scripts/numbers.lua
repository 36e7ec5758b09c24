-- numbers: hands a block of a waiting room's numbers to a node.
--
-- KEYS  1 the room (hash)
-- ARGV  1 the time in milliseconds, or '' for this server's clock   2 how many numbers
--       3 the seed of the room   4 the node   5 the unique name of the block
-- Reply {first, one after the last, 1 if it is from before the opening, time, time when it was first handed
-- out};
--       nil if there is no such room
--
-- Guarantees: No number is in two blocks. A block from before the opening lies below the early numbers, a
-- block from after it lies above. A node that asks again by the name of its last block gets the same one.

local room = call('HMGET', KEYS[1], 'seed', 'block:' .. ARGV[4])
if not room[1] then
  return false
elseif room[1] ~= ARGV[3] then
  return other_seed()
end
local now = time_at(ARGV[1])
local block = room[2] and cjson.decode(room[2])
if not block or block[1] ~= ARGV[5] then
  local first, early = opened(KEYS[1], now)
  local behind = call('HINCRBY', KEYS[1], 'next', ARGV[2])
  block = {ARGV[5], first, behind, early < 0 and 1 or 0, now}
end
-- Write it even if it is unchanged: WAIT covers only what this connection has written.
call('HSET', KEYS[1], 'block:' .. ARGV[4], cjson.encode(block))
return {block[2], block[3], block[4], now, block[5]}
