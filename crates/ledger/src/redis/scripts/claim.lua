-- claim ('c'): the order's number, or a number below 0; recall ('r') never makes an order. To a claim that was accepted
-- before, both answer the order's number (u32) and the packed order in one string.

local claim_count = tonumber(ARGV[4])
local BUYER_AT, CLAIM_AT = 5, 5 + claim_count

-- The number of the buyer's order with the claim's key. An entry is the owned units (u32), then for each order its number
-- (u32) and its key (16 bytes).
local function number_of_key(entry, key)
  local at = find(entry, key, 9, true)
  while at do
    if (at - 9) % 20 == 0 then
      return (unpack_bytes('<I4', entry, at - 4))
    end
    at = find(entry, key, at + 1, true)
  end
end

-- Reads in bulk what the claims need: their buyers, and the orders that retries ask for.
local function load_claims()
  if claim_count == 0 then return end
  load_buyers(ARGV, BUYER_AT + 1, BUYER_AT + claim_count)
  local numbers, count = {}, 0
  for i = 1, claim_count do
    local entry = buyers[ARGV[BUYER_AT + i]]
    local number = entry and number_of_key(entry, sub(ARGV[CLAIM_AT + i], 1, 16))
    if number then
      count = count + 1
      numbers[count] = number
    end
  end
  load_orders(numbers, count)
end

-- Why no claim is accepted at the moment; nil if claims are.
local refusal
local function judge_window()
  if not terms then
    refusal = UNKNOWN_SALE
  elseif is_closed() then
    refusal = CLOSED
  elseif paused then
    refusal = PAUSED
  elseif opens_at and now < opens_at then
    refusal = NOT_OPEN
  else
    refusal = nil
  end
end
judge_window()

local HELD_NOW = char(HELD) .. pack('<i8i8', 0, now)

local function claim(i, is_recall)
  local buyer, packed = ARGV[BUYER_AT + i], ARGV[CLAIM_AT + i]
  local entry, owned = buyers[buyer], 0
  local quantity = unpack_bytes('<I4', packed, 17)
  if entry then
    local number = number_of_key(entry, sub(packed, 1, 16))
    if number then
      local order = orders[number]
      if quantity_of(order) ~= quantity then return KEY_REUSED end
      return pack('<I4', number) .. order
    end
    owned = unpack_bytes('<I4', entry)
  end
  if is_recall then return terms and NOT_ACCEPTED or UNKNOWN_SALE end
  if refusal then return refusal end
  if quantity == 0 then return INVALID_QUANTITY end
  if owned + quantity > limit then return LIMIT_REACHED end
  if quantity > available then return SOLD_OUT end

  local number = order_count
  order_count = number + 1
  available = available - quantity
  held = held + quantity
  due = due or now + hold_millis
  local order = packed .. buyer
  set_order(number, HELD_NOW .. order)
  set_buyer(buyer, pack('<I4', owned + quantity) .. (entry and sub(entry, 5) or '') ..
    pack('<I4', number) .. sub(packed, 1, 16))
  decided('H' .. order)
  return number
end
