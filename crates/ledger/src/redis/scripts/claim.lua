-- claim ('c'): the order's number, or a number below 0. recall ('r') never makes an order. Both answer the
-- order of a claim that was accepted before.

local claim_count = tonumber(ARGV[4])
local CLAIMS, BUYER_AT = ARGV[7], 7
local entries = read_entries(ARGV, BUYER_AT + 1, BUYER_AT + claim_count)

-- Where the record of the buyer's order with this key begins; nil if there is none.
local function record_of_key(entry, key)
  local at = find(entry, key, 26, true)
  while at do
    if (at - 26) % RECORD == 0 then return at - 21 end
    at = find(entry, key, at + 1, true)
  end
end

-- Why claims are refused at the moment; nil if they are accepted.
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
  local buyer, at = ARGV[BUYER_AT + i], (i - 1) * CLAIM + 1
  local place = place_of[buyer]
  local entry, owned = entries[i], 0
  if place then entry = changed[place] end
  local q1, q2, q3, q4 = byte(CLAIMS, at + 16, at + 19)
  local quantity = q1 + q2 * 256 + q3 * 65536 + q4 * 16777216
  if entry then
    local first = record_of_key(entry, sub(CLAIMS, at, at + 15))
    if first then
      if quantity_of(entry, first) ~= quantity then return KEY_REUSED end
      return order_of(entry, first, buyer)
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
  local packed = sub(CLAIMS, at, at + CLAIM - 1)
  if entry then
    entry = pack('<I4', owned + quantity) .. sub(entry, 5) .. pack('<I4', number) .. HELD_NOW .. packed
  else
    -- Packs one string instead of joining three.
    entry = pack('<I4I4c17c20', quantity, number, HELD_NOW, packed)
  end
  set_entry(buyer, entry)
  local place_of_name = order_count - first_number
  new_names[place_of_name] = buyer
  position = position + 1
  if i ~= run_claim + run_count then
    end_run()
    run_claim, run_name = i, place_of_name
  end
  run_count = run_count + 1
  return number
end
