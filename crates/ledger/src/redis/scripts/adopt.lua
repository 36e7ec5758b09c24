-- adopt: gives a sale a home on this server, so that it is decided here from now on. After a failover or a restart
-- somebody has to compare its history with the records first, and to bring it back from there if its end was lost.
--
-- KEYS  1 the sale (hash)   2 its buyers (hash)   3 its orders (hash)   4 its feed (stream)
--       5 and 6 buyers and orders that are being brought back (hashes); all under one hash tag
-- ARGV  1 the step, then what it needs; numbers are texts, and packed forms are those of codec.rs:
--       'look'
--       'keep'    position, mark: how far the records have settled the sale's feed; the least epoch that is new to everybody
--       'begin'   token: 16 random bytes of who brings the sale back
--       'put'     token, how many buyers, how many pages of orders, then buyer and entry for each, page and names for each
--       'finish'  token, position, mark, terms, total, available, held, paid, paused, closed, how many orders, first
--                 hold, due ('' if none), clock, the least epoch that is new to everybody
-- Reply {word, position, epoch}; position and epoch are the sale's in Redis before the step. The words:
--       'home'     this server decides the sale; to 'keep' and 'finish': from now on
--       'unhomed'  it does not, and has not to be asked before the sale was compared with the records
--       'unknown'  there is no such sale, neither here nor in the records
--       'lost'     what the records have settled is not in this history: it has to be brought back
--       'begun', 'put'  the step is done
--       'busy'     somebody else is bringing it back
--       'gone'     somebody else has begun anew since: what was put is void
--
-- A new home is a new epoch: nodes may have heard of decisions that this history lacks, which were never confirmed. Their
-- positions are given to others now, and nobody must take the one for the other.
--
-- Guarantees: nothing is decided between 'begin' and 'finish'; the sale as it was stays until 'finish', which replaces
-- it in one step; of two who bring it back at once only one can finish; whoever dies on the way is replaced after LEASE.

local call, pack, unpack_bytes = redis.call, struct.pack, struct.unpack
local SALE, BUYERS, ORDERS, FEED, NEW_BUYERS, NEW_ORDERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local LEASE = 5000
-- Names in a page of orders, as in decide.
local PAGE = 64

local sale = call('HMGET', SALE, 'terms', 'position', 'epoch', 'home', 'forgotten', 'clock', 'token', 'token_until')
local terms, position, epoch = sale[1], tonumber(sale[2]) or 0, tonumber(sale[3]) or 0
local clock, token, token_until = tonumber(sale[6]) or 0, sale[7], tonumber(sale[8]) or 0
local home = string.match(call('INFO', 'replication'), 'master_replid:(%x+)')
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function reply(word) return {word, position, epoch} end

-- A forgotten sale can't change any more, so it needs no home.
local is_home = terms and (sale[4] == home or sale[5])
local step = ARGV[1]

-- Whether this history has the decision that the records have settled last: the entry with its position has its mark.
local function has_settled(settled_position, mark)
  if settled_position == 0 then return true end
  if not terms or position < settled_position then return false end
  local entry = call('XRANGE', FEED, string.format('%.0f-0', settled_position), '+', 'COUNT', 1)[1]
  if not entry then return false end
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  local last = tonumber(string.match(entry[1], '^%d+'))
  local first = unpack_bytes('<i8', fields.d)
  return (first <= settled_position or last == settled_position) and fields.n == mark
end

if step == 'look' then
  return reply(is_home and 'home' or terms and 'unhomed' or 'unknown')
end
if is_home then return reply('home') end

if step == 'keep' then
  local settled_position = tonumber(ARGV[2])
  if not has_settled(settled_position, ARGV[3]) then return reply('lost') end
  if not terms then return reply('unknown') end
  call('HSET', SALE, 'home', home, 'epoch', math.max(epoch + 1, tonumber(ARGV[4])))
  call('HDEL', SALE, 'token', 'token_until')
  return reply('home')
end

if step == 'begin' then
  if token and token ~= ARGV[2] and now < token_until then return reply('busy') end
  call('UNLINK', NEW_BUYERS, NEW_ORDERS)
  call('HSET', SALE, 'token', ARGV[2], 'token_until', now + LEASE)
  return reply('begun')
end

if token ~= ARGV[2] then return reply('gone') end

if step == 'put' then
  local buyer_count, order_count = tonumber(ARGV[3]), tonumber(ARGV[4])
  local orders_at = 5 + 2 * buyer_count
  if buyer_count > 0 then call('HSET', NEW_BUYERS, unpack(ARGV, 5, orders_at - 1)) end
  if order_count > 0 then call('HSET', NEW_ORDERS, unpack(ARGV, orders_at, orders_at + 2 * order_count - 1)) end
  call('HSET', SALE, 'token_until', now + LEASE)
  return reply('put')
end

if step == 'finish' then
  local total, available, held, paid = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
  if total ~= available + held + paid or call('HLEN', NEW_ORDERS) ~= math.ceil(ARGV[12] / PAGE) then
    return redis.error_reply('INVARIANT what was brought back is not a whole sale')
  end
  local function replace(old, new)
    call('UNLINK', old)
    if call('EXISTS', new) == 1 then call('RENAME', new, old) end
  end
  replace(BUYERS, NEW_BUYERS)
  replace(ORDERS, NEW_ORDERS)
  local settled_position = tonumber(ARGV[3])
  clock = math.max(clock, tonumber(ARGV[15]))
  call('HSET', SALE, 'terms', ARGV[5], 'total', total, 'available', available, 'held', held, 'paid', paid,
    'paused', ARGV[10], 'closed', ARGV[11], 'position', ARGV[3], 'orders', ARGV[12], 'first_hold', ARGV[13],
    'due', ARGV[14], 'clock', clock, 'epoch', math.max(epoch + 1, tonumber(ARGV[16])), 'home', home)
  call('HDEL', SALE, 'token', 'token_until')
  if ARGV[11] == '1' and call('HEXISTS', SALE, 'closed_at') == 0 then
    call('HSET', SALE, 'closed_at', math.max(clock, now))
  end
  -- An entry without decisions: it only says which history the position belongs to.
  call('UNLINK', FEED)
  call('XADD', FEED, string.format('%.0f-0', settled_position), 'n', ARGV[4],
    'd', pack('<i8i8I4', settled_position + 1, clock, tonumber(ARGV[12])))
  return reply('home')
end

return redis.error_reply('ERR adopt has no step ' .. step)
