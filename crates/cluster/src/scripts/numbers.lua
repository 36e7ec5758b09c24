-- numbers: hands a block of a waiting room's numbers to a node.
--
-- KEYS  1 the room (hash)
-- ARGV  1 the time in milliseconds, or '' for this server's clock   2 how many numbers
-- Reply {first, one after the last, early numbers or -1 before the opening, time}; nil if there is no such room.
--
-- Guarantees: no number is in two blocks; a block from before the opening lies below the early numbers, one from
-- after it above.

if call('HEXISTS', KEYS[1], 'seed') == 0 then
  return false
end
local now = time_at(ARGV[1])
local first, early = opened(KEYS[1], now)
local behind = call('HINCRBY', KEYS[1], 'next', ARGV[2])
return {first, behind, early, now}
