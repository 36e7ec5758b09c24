-- forget: removes a sale's orders, buyers, waitlist and feed from Redis once nobody needs them here. The sale
-- itself stays, marked as forgotten: it refuses commands, and its orders are found in the records.
--
-- KEYS  1 the sale (hash)   2 its buyers (hash)   3 the buyers of its orders (hash)   4 its feed (stream)   5 its
--       waitlist (sorted set)   6 its waiters (hash)   7 to 10 what an abandoned adoption may have left
-- ARGV  1 how far the records have settled it   2 the mark at that place   3 for how many milliseconds it
--       must have been closed   4 the time in milliseconds, or '' for this server's clock
-- Reply 1 it is forgotten, now or before   0 it is still needed: it is open, it has holds, or something is
--       not settled
--
-- Guarantees: nothing is forgotten that is not in the records; nothing is decided about a forgotten sale. The
-- memory is freed in the background.

local call = redis.call
local sale = call('HMGET', KEYS[1], 'terms', 'closed', 'closed_at', 'held', 'position', 'home', 'forgotten', 'orders')
local terms, forgotten = sale[1], sale[7]
if not terms then return 0 end

local now = tonumber(ARGV[4])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

if not forgotten then
  local _, _, _, flags, _, closes_at = struct.unpack('<I4I4I4Bi8i8', terms)
  local closed_at = sale[2] == '1' and tonumber(sale[3]) or flags >= 2 and closes_at or nil
  local is_over = closed_at and closed_at + tonumber(ARGV[3]) <= now
  local home = string.match(call('INFO', 'replication'), 'master_replid:(%x+)')
  if not is_over or sale[4] ~= '0' or sale[5] ~= ARGV[1] or sale[6] ~= home then return 0 end
  -- The records may have settled another history up to the same position.
  local last = call('XREVRANGE', KEYS[4], '+', '-', 'COUNT', 1)[1]
  if not last or last[2][2] ~= ARGV[2] then return 0 end
  call('HSET', KEYS[1], 'forgotten', 1, 'first_hold', sale[8], 'due', '', 'waiting', 0)
end
call('UNLINK', unpack(KEYS, 2))
return 1
