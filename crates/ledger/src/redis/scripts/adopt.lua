-- adopt: gives a sale a home on this server, so that from now on it is decided here. After a failover or a
-- restart a node first has to compare the sale's history with the records, and to bring the sale back from
-- them if the end of its history was lost.
--
-- KEYS  1 the sale (hash)   2 its buyers (hash)   3 its orders (hash)   4 its feed (stream)   5 its waitlist
--       (sorted set)   6 its waiters (hash)   7 to 10 buyers, orders, waitlist and waiters that are being
--       brought back; all under one hash tag
-- ARGV  1 the step   and, except for 'look', 2 the replication id that 'look' answered   3 the epoch that the
--       records gave after that look, to nobody else   then what the step needs; packed forms are those of
--       codec.rs:
--       'look'
--       'keep'    position, mark: how far the records have settled the sale's feed
--       'begin'   position, mark, as for 'keep': another node may have brought the sale back meanwhile
--       'put'     the number of buyers, of pages of orders and of waiters, then buyer and entry for each,
--                 page and names for each, buyer and entry for each
--       'finish'  position, mark, terms, total, available, held, paid, paused, closed, number of orders,
--                 first hold, due ('' if none), clock, number of buyers, number of waiters, the next waiter's
--                 number
-- Reply {word, position, epoch, replication id}; position and epoch are the sale's in Redis before the step.
--       The words:
--       'home'     this server decides the sale; to 'keep' and 'finish': from now on, in the given epoch or a
--                  later one
--       'unhomed'  this server does not decide the sale until its history was compared with the records
--       'unknown'  there is no such sale here; to 'keep': nor in the records, so that it may be published
--                  from now on
--       'lost'     this history lacks decisions that the records have settled: the sale has to be brought
--                  back
--       'trimmed'  this history is longer than that of the records, and the part where the records end was
--                  trimmed
--       'begun', 'put'  the step is done
--       'busy'     another node is bringing the sale back
--       'gone'     the sale has changed since the look (another server, a later epoch): look again
--
-- A new home is a new epoch. Nodes may have heard of unconfirmed decisions that this history lacks. Their
-- positions now go to other decisions, and the epoch tells them apart. `lineage` says what the epochs have in
-- common: an entry `epoch:position` means that the history went on from that position of that epoch.
--
-- Guarantees: nothing is decided between 'begin' and 'finish'. The sale stays as it was until 'finish', which
-- replaces it in one step. If two nodes bring it back at once, only one can finish. A node that dies on the
-- way is replaced after LEASE. Nothing is done for a node that looked at another server, or asked the records
-- before this server was master.

local call, pack, unpack_bytes = redis.call, struct.pack, struct.unpack
local SALE, BUYERS, ORDERS, FEED, WAITLIST, WAITERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local NEW_BUYERS, NEW_ORDERS, NEW_WAITLIST, NEW_WAITERS = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local LEASE = 5000
-- Names in a page of orders, as in decide (head.lua).
local PAGE = 64
-- Entries of the lineage that are kept. A node whose last news is older reads the whole sale.
local LINEAGE = 16

local sale = call('HMGET', SALE, 'terms', 'position', 'epoch', 'home', 'forgotten', 'clock', 'token', 'token_until',
  'looked', 'lineage')
local terms, position, epoch = sale[1], tonumber(sale[2]) or 0, tonumber(sale[3]) or 0
local clock, token, token_until = tonumber(sale[6]) or 0, tonumber(sale[7]), tonumber(sale[8]) or 0
local info = call('INFO', 'replication')
local home = string.match(info, 'master_replid:(%x+)')
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function reply(word) return {word, position, epoch, home} end

-- A forgotten sale never changes again, so it needs no home.
local is_home = terms and (sale[4] == home or sale[5])
local step, given = ARGV[1], tonumber(ARGV[3])

if step == 'look' then
  return reply(is_home and 'home' or terms and 'unhomed' or 'unknown')
end
if terms and sale[5] then return reply('home') end
if home ~= ARGV[2] or not string.find(info, 'role:master', 1, true) then return reply('gone') end
-- Another node asked the records later and was quicker.
if given < epoch or terms and given == epoch then
  local is_done = is_home or not terms and sale[9] == home
  return reply(is_done and (terms and 'home' or 'unknown') or 'gone')
end

-- Whether this history has the last decision that the records have settled: the entry that contains it has
-- its mark.
local function compare(settled_position, mark)
  if settled_position == 0 then return 'same' end
  if not terms or position < settled_position then return 'lost' end
  local entry = call('XRANGE', FEED, string.format('%.0f-0', settled_position), '+', 'COUNT', 1)[1]
  if not entry then return position > settled_position and 'trimmed' or 'lost' end
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  local last = tonumber(string.match(entry[1], '^%d+'))
  local first = unpack_bytes('<i8', fields.d)
  if first > settled_position and last ~= settled_position then return 'trimmed' end
  return fields.n == mark and 'same' or 'lost'
end

if step == 'keep' then
  local found = compare(tonumber(ARGV[4]), ARGV[5])
  if found ~= 'same' then return reply(found) end
  call('UNLINK', NEW_BUYERS, NEW_ORDERS, NEW_WAITLIST, NEW_WAITERS)
  call('HDEL', SALE, 'token', 'token_until')
  if not terms then
    call('HSET', SALE, 'looked', home, 'epoch', given)
    return reply('unknown')
  end
  local lineage, count = {}, 0
  for entry in string.gmatch(sale[10] or '', '[^ ]+') do
    count = count + 1
    lineage[count] = entry
  end
  lineage[count + 1] = string.format('%.0f:%.0f', epoch, position)
  lineage = table.concat(lineage, ' ', math.max(1, count + 2 - LINEAGE))
  call('HSET', SALE, 'home', home, 'epoch', given, 'lineage', lineage)
  return reply('home')
end

if step == 'begin' then
  if compare(tonumber(ARGV[4]), ARGV[5]) ~= 'lost' then return reply('gone') end
  if token and token > given then return reply('gone') end
  if token and token ~= given and now < token_until then return reply('busy') end
  call('UNLINK', NEW_BUYERS, NEW_ORDERS, NEW_WAITLIST, NEW_WAITERS)
  call('HSET', SALE, 'token', ARGV[3], 'token_until', now + LEASE, 'home', '')
  return reply('begun')
end

if token ~= given then return reply('gone') end

if step == 'put' then
  local at = 7
  local function put(count, into)
    if count > 0 then call('HSET', into, unpack(ARGV, at, at + 2 * count - 1)) end
    at = at + 2 * count
  end
  put(tonumber(ARGV[4]), NEW_BUYERS)
  put(tonumber(ARGV[5]), NEW_ORDERS)
  for i = at, #ARGV, 2 do
    call('ZADD', NEW_WAITLIST, (unpack_bytes('<I4', ARGV[i + 1])), ARGV[i])
  end
  put(tonumber(ARGV[6]), NEW_WAITERS)
  call('HSET', SALE, 'token_until', now + LEASE)
  return reply('put')
end

if step == 'finish' then
  local total, available, held, paid = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
  if total ~= available + held + paid or call('HLEN', NEW_ORDERS) ~= math.ceil(ARGV[13] / PAGE)
    or call('HLEN', NEW_BUYERS) ~= tonumber(ARGV[17]) or call('HLEN', NEW_WAITERS) ~= tonumber(ARGV[18])
    or call('ZCARD', NEW_WAITLIST) ~= tonumber(ARGV[18]) then
    return redis.error_reply('INVARIANT the sale that was brought back is incomplete')
  end
  local function replace(old, new)
    call('UNLINK', old)
    if call('EXISTS', new) == 1 then call('RENAME', new, old) end
  end
  replace(BUYERS, NEW_BUYERS)
  replace(ORDERS, NEW_ORDERS)
  replace(WAITLIST, NEW_WAITLIST)
  replace(WAITERS, NEW_WAITERS)
  local settled_position = tonumber(ARGV[4])
  clock = math.max(clock, tonumber(ARGV[16]))
  call('HSET', SALE, 'terms', ARGV[6], 'total', total, 'available', available, 'held', held, 'paid', paid,
    'paused', ARGV[11], 'closed', ARGV[12], 'position', ARGV[4], 'orders', ARGV[13], 'first_hold', ARGV[14],
    'due', ARGV[15], 'clock', clock, 'epoch', given, 'home', home, 'waiting', ARGV[18], 'next_waiter', ARGV[19])
  call('HDEL', SALE, 'token', 'token_until', 'lineage')
  if ARGV[12] == '1' and call('HEXISTS', SALE, 'closed_at') == 0 then
    call('HSET', SALE, 'closed_at', math.max(clock, now))
  end
  -- An entry without decisions: it only says which history the position belongs to.
  call('UNLINK', FEED)
  call('XADD', FEED, string.format('%.0f-0', settled_position), 'n', ARGV[5],
    'd', pack('<i8i8I4', settled_position + 1, clock, tonumber(ARGV[13])))
  return reply('home')
end

return redis.error_reply('ERR adopt has no step ' .. step)
