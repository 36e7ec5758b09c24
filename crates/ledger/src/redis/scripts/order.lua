-- confirm ('p'), cancel ('x') and find ('f') one order: the packed order, or a number below 0; find: false if there is
-- none. Whoever asks as a buyer finds only his own. orders of ('o', needs a buyer and how many): the buyer's newest
-- orders, each its number (u32) and the packed order in one string.

local asked_count = tonumber(ARGV[5])
local NUMBER_AT, ASKER_AT = CLAIM_AT + claim_count, CLAIM_AT + claim_count + asked_count

local function load_asked()
  local numbers = {}
  for i = 1, asked_count do
    numbers[i] = tonumber(ARGV[NUMBER_AT + i])
  end
  load_orders(numbers, asked_count)
end

local function asked_order(i)
  local number, asker = tonumber(ARGV[NUMBER_AT + i]), ARGV[ASKER_AT + i]
  local order = orders[number]
  if order and (asker == '' or asker == buyer_of(order)) then
    return number, order
  end
end

local function pay(number, order)
  local packed = char(PAID) .. pack('<i8', now) .. sub(order, 10)
  set_order(number, packed)
  return packed
end

local function release(number, order, state, letter)
  local quantity = quantity_of(order)
  available = available + quantity
  held = held - quantity
  add_owned(buyer_of(order), -quantity)
  local packed = char(state) .. sub(order, 2)
  set_order(number, packed)
  decided(pack('<c1I4I4', letter, number, quantity))
  return packed
end

-- A payment in time makes the hold a sale. One that comes too late gets its units again if they are still there, and
-- is owed a refund if not.
local function confirm(i)
  local number, order = asked_order(i)
  if not order then return UNKNOWN_ORDER end
  local state, quantity = byte(order), quantity_of(order)
  if state == PAID then return order end
  if state == CANCELLED then return HOLD_EXPIRED end
  if state == REFUND then return REFUND_DUE end
  if state == HELD then
    held = held - quantity
    paid = paid + quantity
    decided(pack('<c1I4I4', 'P', number, quantity))
    return pay(number, order)
  end
  local buyer = buyer_of(order)
  local owned = unpack_bytes('<I4', buyer_entry(buyer))
  if quantity > available or owned + quantity > limit then
    set_order(number, char(REFUND) .. sub(order, 2))
    decided(pack('<c1I4', 'R', number))
    return REFUND_DUE
  end
  available = available - quantity
  paid = paid + quantity
  add_owned(buyer, quantity)
  decided(pack('<c1I4I4', 'L', number, quantity))
  return pay(number, order)
end

local function cancel(i)
  local number, order = asked_order(i)
  if not order then return UNKNOWN_ORDER end
  local state = byte(order)
  if state == PAID then return ALREADY_PAID end
  if state == CANCELLED then return order end
  if state ~= HELD then return HOLD_EXPIRED end
  return release(number, order, CANCELLED, 'C')
end

local function find_order(i)
  local _, order = asked_order(i)
  return order or false
end

local function orders_of(buyer, max)
  local entry = buyer_entry(buyer)
  local numbers, count = {}, 0
  if entry then
    for at = #entry - 19, 5, -20 do
      if count == max then break end
      count = count + 1
      numbers[count] = unpack_bytes('<I4', entry, at)
    end
  end
  local answer, unknown = {}, {}
  for i = 1, count do
    if not orders[numbers[i]] then unknown[#unknown + 1] = numbers[i] end
  end
  load_orders(unknown, #unknown)
  for i = 1, count do
    answer[i] = pack('<I4', numbers[i]) .. orders[numbers[i]]
  end
  return answer
end
