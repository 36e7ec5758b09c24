-- join ('j', needs a buyer, a quantity, and how many may wait at most): the buyer's place on the waitlist, or
-- a number below 0. leave ('d', needs a buyer): 1, or 0 if the buyer was not on it. place ('q', needs a
-- buyer): the buyer's place, or false. A place is position u32, quantity u32, joined i64.
--
-- Units that come back while somebody waits are not on sale: `offer` holds them for the first in line, as
-- `Book` does.
--
-- The functions are created only for batches that need them: creating a dozen for nothing would take a third
-- of the time of a batch with a single claim.
--
-- The list is a sorted set (buyers by number) and a hash (buyer: number u32, quantity u32, joined i64). Redis
-- has both as they were before the batch until `write`; the variables here have the changes.

local waiting_before = waiting
-- The functions for the list; nil if nobody waits and no command asks.
local waitlist

if waiting > 0 or find(ARGV[3], '[jdq]') then
  local NO_NUMBER_LEFT = 4294967295
  -- The key of an offer: the waiter's number, and bytes that no client can send.
  local OFFER = char(0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255)

  -- The entries that were read or made: buyer → entry; false means that the buyer is not on the list.
  local waiters = {}
  -- Buyers who joined in this batch, in order (false once they have left again), and each one's place in that
  -- list.
  local new_waiters, new_count, new_place = {}, 0, {}
  -- Earlier waiters who are off the list now: all of them, how many of them had their turn, the numbers of
  -- the others.
  local gone, gone_count, served, left_numbers = {}, 0, 0, {}
  -- The number for the next buyer to join; nil until it was read.
  local next_number

  local function waiter_of(buyer)
    if waiters[buyer] == nil then
      waiters[buyer] = waiting_before > 0 and not forgotten and call('HGET', WAITERS, buyer)
    end
    return waiters[buyer]
  end

  local function place_of_waiter(buyer, waiter)
    local number, quantity, joined_at = unpack_bytes('<I4I4i8', waiter)
    local place = new_place[buyer]
    local position
    if place then
      position = waiting_before - gone_count
      for i = 1, place do
        if new_waiters[i] then position = position + 1 end
      end
    else
      -- Everyone who had their turn was ahead of all who still wait.
      position = call('ZRANK', WAITLIST, buyer) + 1 - served
      for _, left in ipairs(left_numbers) do
        if left < number then position = position - 1 end
      end
    end
    return pack('<I4I4i8', position, quantity, joined_at)
  end

  local function join(buyer, quantity, most)
    if not terms then return UNKNOWN_SALE end
    if is_closed() then return CLOSED end
    local waiter = waiter_of(buyer)
    if waiter then return place_of_waiter(buyer, waiter) end
    if refusal then return refusal end
    if quantity == 0 then return INVALID_QUANTITY end
    local entry = entry_of(buyer)
    local owned = entry and unpack_bytes('<I4', entry) or 0
    if owned + quantity > limit or (entry and #entry >= MAX_ENTRY) then return LIMIT_REACHED end
    if available > 0 then return NOT_SOLD_OUT end
    next_number = next_number or tonumber(call('HGET', SALE, 'next_waiter') or 0)
    if waiting >= most or next_number == NO_NUMBER_LEFT then return WAITLIST_FULL end
    waiting = waiting + 1
    new_count = new_count + 1
    new_waiters[new_count], new_place[buyer] = buyer, new_count
    waiters[buyer] = pack('<I4I4i8', next_number, quantity, now)
    decided(pack('<c1I4I4', 'J', next_number, quantity) .. buyer .. '\n')
    next_number = next_number + 1
    return pack('<I4I4i8', waiting, quantity, now)
  end

  local function take_off(buyer, letter)
    local number = unpack_bytes('<I4', waiters[buyer])
    decided(pack('<c1I4', letter, number) .. buyer .. '\n')
    waiters[buyer] = false
    waiting = waiting - 1
    local place = new_place[buyer]
    if place then
      new_waiters[place], new_place[buyer] = false, nil
      return number
    end
    gone_count = gone_count + 1
    gone[gone_count] = buyer
    if letter == 'D' then
      left_numbers[#left_numbers + 1] = number
    else
      served = served + 1
    end
    return number
  end

  local function leave(buyer)
    if not waiter_of(buyer) then return 0 end
    take_off(buyer, 'D')
    return 1
  end

  local function find_place(buyer)
    local waiter = terms and not is_closed() and waiter_of(buyer)
    return waiter and place_of_waiter(buyer, waiter)
  end

  -- Earlier waiters in order: those that were read last, the one looked at, and the rank of the next to read.
  local line, line_place, line_rank = {}, 1, 0
  local new_first = 1

  -- Reads more of the line in bulk: no more waiters than there are units, since an offer is at least one
  -- unit.
  local function read_line()
    if line_rank >= waiting_before then return false end
    line = call('ZRANGE', WAITLIST, line_rank, line_rank + math.min(available, CHUNK) - 1)
    line_place, line_rank = 1, line_rank + #line
    local entries = #line > 0 and call('HMGET', WAITERS, unpack(line)) or {}
    local their_orders = read_entries(line, 1, #line)
    for i, buyer in ipairs(line) do
      if waiters[buyer] == nil then waiters[buyer] = entries[i] end
      if buyers[buyer] == nil then buyers[buyer] = their_orders[i] end
    end
    return #line > 0
  end

  -- The buyer whose turn it is.
  local function front()
    while line_place <= #line or read_line() do
      local buyer = line[line_place]
      -- The buyer may have left meanwhile, or joined anew.
      if waiters[buyer] and not new_place[buyer] then return buyer end
      line_place = line_place + 1
    end
    while not new_waiters[new_first] and new_first < new_count do
      new_first = new_first + 1
    end
    return new_waiters[new_first]
  end

  local function hold_for(buyer, entry, owned, quantity, key)
    local packed = key .. pack('<I4', quantity)
    local number = order_count
    order_count = number + 1
    available = available - quantity
    held = held + quantity
    due = due or now + hold_millis
    local earlier = entry and sub(entry, 5) or ''
    set_entry(buyer, pack('<I4', owned + quantity) .. earlier .. pack('<I4', number) .. HELD_NOW .. packed)
    new_names[order_count - first_number] = buyer
    decided(pack('<c1I4', 'H', 1) .. packed .. buyer .. '\n')
  end

  local function offer()
    judge_window()
    while not refusal and waiting > 0 and available > 0 do
      local buyer = front() or error('INVARIANT the waitlist is shorter than it says')
      local entry = entry_of(buyer)
      local owned = entry and unpack_bytes('<I4', entry) or 0
      local _, wanted = unpack_bytes('<I4I4', waiters[buyer])
      local quantity = math.min(wanted, available, limit - owned)
      if entry and #entry >= MAX_ENTRY then quantity = 0 end
      if quantity > 0 then
        local number = take_off(buyer, 'O')
        hold_for(buyer, entry, owned, quantity, pack('<I4', number) .. OFFER)
      else
        take_off(buyer, 'N')
      end
    end
  end

  -- Writes down who joined and who is gone.
  local function write()
    if gone_count == 0 and new_count == 0 then return end
    for from = 1, gone_count, CHUNK do
      local last = math.min(from + CHUNK - 1, gone_count)
      call('ZREM', WAITLIST, unpack(gone, from, last))
      call('HDEL', WAITERS, unpack(gone, from, last))
    end
    local ranks, entries = {}, {}
    for i = 1, new_count do
      local buyer = new_waiters[i]
      if buyer then
        local count = #ranks
        ranks[count + 1], ranks[count + 2] = (unpack_bytes('<I4', waiters[buyer])), buyer
        entries[count + 1], entries[count + 2] = buyer, waiters[buyer]
      end
    end
    for from = 1, #ranks, 2 * CHUNK do
      local last = math.min(from + 2 * CHUNK - 1, #ranks)
      call('ZADD', WAITLIST, unpack(ranks, from, last))
      call('HSET', WAITERS, unpack(entries, from, last))
    end
    call('HSET', SALE, 'waiting', waiting)
    if next_number then call('HSET', SALE, 'next_waiter', next_number) end
  end

  waitlist = {join = join, leave = leave, find_place = find_place, offer = offer, write = write}
end

-- Offers available units to the waiters in order, until nothing is left or nobody waits. Call it after
-- everything that brings units back or lets the sale go on. Call it before all commands as well: the settled
-- history of a sale that was brought back may end between a release and its offer.
local function offer()
  if waiting > 0 and available > 0 then waitlist.offer() end
end
