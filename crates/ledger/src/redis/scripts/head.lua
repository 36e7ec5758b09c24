-- decide: runs all commands of one batch for one sale, in order, in one step.
--
-- The files head, claim, wait, order, expire, sale and tail are one script, in this order. The rules are
-- those of `Book` (crates/domain/src/book); a test sends the same random commands to both.
--
-- KEYS  1 the sale (hash)   2 its buyers (hash: each buyer's units and orders)   3 the buyers of its orders
--       (hash: PAGE names each)   4 its feed (stream)   5 its waitlist (sorted set)   6 its waiters (hash);
--       all under one hash tag
-- ARGV  1 the time in milliseconds, or '' for this server's clock
--       2 the mark of the feed's entry, 16 random bytes
--       3 the commands, a letter each: see tail.lua
--       4 how many of them are claims and recalls (n)   5 how many ask for one order (m)
--       6 '1' if replicas have to confirm the answers   7 the n claims in a row: key 16, quantity u32
--       then n buyers, m order numbers, m buyers ('' is anybody), and what the other commands need, in their
--       order
-- Reply {0, time}                 this server may not decide the sale (it is not its home): nothing was done
--       {1, time, terms, counts, position before, answer, answer, …}   an answer for each command
--       terms is '' if the sale is unknown; terms and counts are packed as in codec.rs. A refusal is a number
--       below 0; the other answers are described at each command's function.
--
-- Guarantees: everything or nothing happens (an error comes before the first write). total = available + held
-- + paid, and nothing is on sale while somebody waits for it; anything else is an error. All decisions of the
-- batch are in one entry of the feed; a batch that decides nothing leaves no entry. If replicas have to
-- confirm, something is always written, because WAIT waits only for earlier writes.

local call, pack, unpack_bytes = redis.call, struct.pack, struct.unpack
local sub, byte, char, find = string.sub, string.byte, string.char, string.find
local SALE, BUYERS, NAMES, FEED, WAITLIST, WAITERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

local UNKNOWN_SALE, NOT_OPEN, PAUSED, CLOSED, LIMIT_REACHED, SOLD_OUT, KEY_REUSED = -1, -2, -3, -4, -5, -6, -7
local INVALID_QUANTITY, NOT_ACCEPTED, UNKNOWN_ORDER, HOLD_EXPIRED, REFUND_DUE = -8, -9, -10, -11, -12
local ALREADY_PAID, TOO_MANY_UNITS, NOT_SOLD_OUT, WAITLIST_FULL = -13, -14, -15, -16
-- The states of an order.
local HELD, PAID, EXPIRED, CANCELLED, REFUND = 0, 1, 2, 3, 4
-- An order in its buyer's entry: number u32, state u8, paid i64, created i64, key 16, quantity u32. The entry
-- begins with the held and paid units (u32).
local RECORD = 41
local CLAIM = 20
-- Orders are found by number through pages of names. A line feed ends each name; names contain none.
local PAGE = 64
-- The most orders one buyer can have of a sale, as in `Book`: the buyer's entry is read and written as a
-- whole.
local MAX_ORDERS_PER_BUYER = 256
-- Lua's `unpack` takes fewer than 8,000 values.
local CHUNK = 3500

local sale = call('HMGET', SALE, 'terms', 'total', 'available', 'held', 'paid', 'paused', 'closed', 'position',
  'orders', 'first_hold', 'due', 'clock', 'epoch', 'home', 'forgotten', 'waiting')
local terms = sale[1]
local total, available, held, paid = tonumber(sale[2]) or 0, tonumber(sale[3]) or 0, tonumber(sale[4]) or 0,
  tonumber(sale[5]) or 0
local paused, closed = sale[6] == '1', sale[7] == '1'
local position, order_count, first_hold = tonumber(sale[8]) or 0, tonumber(sale[9]) or 0, tonumber(sale[10]) or 0
-- When the order `first_hold` is due, whatever its state is now; nil if there is no such order yet.
local due = tonumber(sale[11])
local epoch, forgotten = tonumber(sale[13]) or 0, sale[15]
-- How many are on the waitlist.
local waiting = tonumber(sale[16]) or 0

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
-- Time never runs backwards in a sale, so that its holds come due in the order of their numbers.
now = math.max(now, tonumber(sale[12]) or now)

-- After a failover or a restart the end of the history may be missing. Nothing is decided here until a node
-- has compared it with the records (adopt.lua). A forgotten sale never changes again, so it needs no home.
local replication = call('INFO', 'replication')
-- A replica has the id of its master, but may lag behind it. It turns the batch away like a write.
if not find(replication, 'role:master', 1, true) then
  return redis.error_reply('READONLY this server is a replica and decides nothing')
end
local home = string.match(replication, 'master_replid:(%x+)')
if terms and not forgotten and sale[14] ~= home then
  return {0, now}
end

local limit, hold_millis, opens_at, closes_at
local function read_terms()
  local _, limit_per_buyer, hold_seconds, flags, opens, closes = unpack_bytes('<I4I4I4Bi8i8', terms)
  limit, hold_millis = limit_per_buyer, hold_seconds * 1000
  opens_at = flags % 2 == 1 and opens or nil
  closes_at = flags >= 2 and closes or nil
end
if terms then read_terms() end

local position_before, first_number = position, order_count
-- The names of this batch's new orders, in the order of their numbers.
local new_names = {}

-- What was decided: the pieces of the feed's entry.
local pieces, piece_count = {}, 0
local function add_piece(piece)
  piece_count = piece_count + 1
  pieces[piece_count] = piece
end

-- Claims that are accepted in a row make one piece: the first one's place among the batch's claims, their
-- number, and the place of the first one's buyer among the new names.
local run_claim, run_count, run_name = 0, 0, 0
local function end_run()
  if run_count == 0 then return end
  add_piece(pack('<c1I4', 'H', run_count))
  add_piece(sub(ARGV[7], (run_claim - 1) * CLAIM + 1, (run_claim - 1 + run_count) * CLAIM))
  add_piece(table.concat(new_names, '\n', run_name, run_name + run_count - 1))
  add_piece('\n')
  run_count = 0
end

local function decided(piece)
  end_run()
  position = position + 1
  add_piece(piece)
end

-- The entries that were read: buyer → entry; false means that the buyer has none. A forgotten sale has none.
-- Entries that this batch changed are in `changed` (buyer, entry, buyer, entry, …); `place_of` says where in
-- it a buyer's entry is.
local buyers = {}
local changed, changed_count, place_of = {}, 0, {}

-- The entries of some buyers as they were before the batch, in their order.
local function read_entries(names, first, last)
  if forgotten or first > last then return {} end
  if last - first < CHUNK then return call('HMGET', BUYERS, unpack(names, first, last)) end
  local entries, count = {}, 0
  for from = first, last, CHUNK do
    for _, entry in ipairs(call('HMGET', BUYERS, unpack(names, from, math.min(from + CHUNK - 1, last)))) do
      count = count + 1
      entries[count] = entry
    end
  end
  return entries
end

local function entry_of(buyer)
  local place = place_of[buyer]
  if place then return changed[place] end
  if forgotten then return false end
  if buyers[buyer] == nil then
    buyers[buyer] = call('HGET', BUYERS, buyer)
  end
  return buyers[buyer]
end

local function set_entry(buyer, entry)
  local place = place_of[buyer]
  if not place then
    place = changed_count + 2
    changed_count = place
    place_of[buyer] = place
    changed[place - 1] = buyer
  end
  changed[place] = entry
end

local pages = {}

-- The names of a page as it was before the batch.
local function names_of(page)
  if not pages[page] then
    local names = {}
    for name in string.gmatch(call('HGET', NAMES, page) or '', '[^\n]+') do
      names[#names + 1] = name
    end
    pages[page] = names
  end
  return pages[page]
end

-- The order's buyer; nil if there is no such order.
local function buyer_of(number)
  if forgotten then return end
  if number >= first_number then
    return new_names[number - first_number + 1]
  end
  return names_of(math.floor(number / PAGE))[number % PAGE + 1]
end

-- Where the order's record begins in its buyer's entry.
local function record_at(entry, number)
  local packed = pack('<I4', number)
  local at = find(entry, packed, 5, true)
  while (at - 5) % RECORD ~= 0 do
    at = find(entry, packed, at + 1, true)
  end
  return at
end

local function state_of(entry, at) return byte(entry, at + 4) end
local function created_at(entry, at) return (unpack_bytes('<i8', entry, at + 13)) end
local function quantity_of(entry, at) return (unpack_bytes('<I4', entry, at + 37)) end
-- An order in an answer: its record, then its buyer.
local function order_of(entry, at, buyer) return sub(entry, at, at + RECORD - 1) .. buyer end

-- Gives the order at `at` another state and adds `units` to the buyer's held and paid units. Answers the new
-- entry.
local function change(buyer, entry, at, state, paid_at, units)
  local owned = unpack_bytes('<I4', entry) + units
  local changed_entry = pack('<I4', owned) .. sub(entry, 5, at + 3) .. char(state) .. pack('<i8', paid_at) ..
    sub(entry, at + 13)
  set_entry(buyer, changed_entry)
  return changed_entry
end

-- The counts at this moment, as codec.rs unpacks them.
local function counts()
  local flags = (paused and 1 or 0) + (closed and 2 or 0) + (forgotten and 4 or 0)
  return pack('<I4I4I4I4BI4i8i8', total, available, held, paid, flags, epoch, position, due or -1)
end

local function is_closed() return closed or (closes_at ~= nil and now >= closes_at) end
