-- claim ('c'): the order's number, or a number below 0; recall ('r') never makes an order. To a claim that was accepted
-- before, both answer its order.

local claim_count = tonumber(ARGV[4])
local BUYER_AT, CLAIM_AT = 6, 6 + claim_count

-- Where the record of the buyer's order with this key begins; nil if there is none.
local function record_of_key(entry, key)
  local at = find(entry, key, 26, true)
  while at do
    if (at - 26) % RECORD == 0 then return at - 21 end
    at = find(entry, key, at + 1, true)
  end
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

local MAX_ENTRY = 4 + MAX_ORDERS_PER_BUYER * RECORD
local HELD_NOW = char(HELD) .. pack('<i8i8', 0, now)

local function claim(i, is_recall)
  local buyer, packed = ARGV[BUYER_AT + i], ARGV[CLAIM_AT + i]
  local entry, owned = buyers[buyer], 0
  local quantity = unpack_bytes('<I4', packed, 17)
  if entry then
    local at = record_of_key(entry, sub(packed, 1, 16))
    if at then
      if quantity_of(entry, at) ~= quantity then return KEY_REUSED end
      return order_of(entry, at, buyer)
    end
    owned = unpack_bytes('<I4', entry)
  end
  if is_recall then return terms and NOT_ACCEPTED or UNKNOWN_SALE end
  if refusal then return refusal end
  if quantity == 0 then return INVALID_QUANTITY end
  if owned + quantity > limit or (entry and #entry >= MAX_ENTRY) then return LIMIT_REACHED end
  if quantity > available then return SOLD_OUT end

  local number = order_count
  order_count = number + 1
  available = available - quantity
  held = held + quantity
  due = due or now + hold_millis
  if entry then
    set_entry(buyer, pack('<I4', owned + quantity) .. sub(entry, 5) .. pack('<I4', number) .. HELD_NOW .. packed)
  else
    set_entry(buyer, pack('<I4I4', quantity, number) .. HELD_NOW .. packed)
  end
  local name = char(#buyer) .. buyer
  new_names[order_count - first_number] = name
  -- As `decided` does, without another string.
  position = position + 1
  pieces[piece_count + 1] = 'H'
  pieces[piece_count + 2] = packed
  pieces[piece_count + 3] = name
  piece_count = piece_count + 3
  return number
end
