-- confirm ('p'), cancel ('x') and find ('f') one order: the order, or a number below 0; find: false if there
-- is none. A buyer who asks finds only their own orders. orders of ('o', needs a buyer and a maximum): the
-- buyer's newest orders.

local asked_count = tonumber(ARGV[5])
local NUMBER_AT, ASKER_AT = BUYER_AT + claim_count, BUYER_AT + claim_count + asked_count

-- Number, buyer, entry and place of the order; nil if there is none that the asker may see.
local function asked_order(i)
  local number, asker = tonumber(ARGV[NUMBER_AT + i]), ARGV[ASKER_AT + i]
  local buyer = buyer_of(number)
  if not buyer or (asker ~= '' and asker ~= buyer) then return end
  local entry = entry_of(buyer)
  return number, buyer, entry, record_at(entry, number)
end

-- Puts the units of a hold back on sale.
local function release(number, buyer, entry, at, state, letter)
  local quantity = quantity_of(entry, at)
  available = available + quantity
  held = held - quantity
  decided(pack('<c1I4I4', letter, number, quantity))
  return change(buyer, entry, at, state, 0, -quantity)
end

-- A payment in time makes the hold a sale. A late payment gets its units again if they are still available;
-- otherwise a refund is due.
local function confirm(i)
  local number, buyer, entry, at = asked_order(i)
  if not number then return UNKNOWN_ORDER end
  local state, quantity = state_of(entry, at), quantity_of(entry, at)
  if state == PAID then return order_of(entry, at, buyer) end
  if state == CANCELLED then return HOLD_EXPIRED end
  if state == REFUND then return REFUND_DUE end
  if state == HELD then
    held = held - quantity
    paid = paid + quantity
    decided(pack('<c1I4I4', 'P', number, quantity))
    return order_of(change(buyer, entry, at, PAID, now, 0), at, buyer)
  end
  if quantity > available or unpack_bytes('<I4', entry) + quantity > limit then
    change(buyer, entry, at, REFUND, 0, 0)
    decided(pack('<c1I4', 'R', number))
    return REFUND_DUE
  end
  available = available - quantity
  paid = paid + quantity
  decided(pack('<c1I4I4', 'L', number, quantity))
  return order_of(change(buyer, entry, at, PAID, now, quantity), at, buyer)
end

local function cancel(i)
  local number, buyer, entry, at = asked_order(i)
  if not number then return UNKNOWN_ORDER end
  local state = state_of(entry, at)
  if state == PAID then return ALREADY_PAID end
  if state == CANCELLED then return order_of(entry, at, buyer) end
  if state ~= HELD then return HOLD_EXPIRED end
  local answer = order_of(release(number, buyer, entry, at, CANCELLED, 'C'), at, buyer)
  offer()
  return answer
end

local function find_order(i)
  local number, buyer, entry, at = asked_order(i)
  return number and order_of(entry, at, buyer) or false
end

local function orders_of(buyer, max)
  local entry, answer = entry_of(buyer), {}
  if entry then
    for at = #entry - RECORD + 1, 5, -RECORD do
      if #answer == max then break end
      answer[#answer + 1] = order_of(entry, at, buyer)
    end
  end
  return answer
end
