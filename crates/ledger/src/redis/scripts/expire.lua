-- expire ('e', needs how many at most): releases holds whose time is over and answers how many. `due` is then the moment
-- at which asking again is worth while: it is not after `now` if there may be more.

-- Orders that are looked at in one call. Most are paid or cancelled by then, and finding that out takes time too.
local MAX_LOOKED_AT = 5000

-- The numbers from `first_hold` on that this batch does not know yet are read in bulk.
local function load_from_first_hold(count)
  local numbers, unknown = {}, 0
  for number = first_hold, math.min(first_hold + count, order_count) - 1 do
    if orders[number] == nil then
      unknown = unknown + 1
      numbers[unknown] = number
    end
  end
  load_orders(numbers, unknown)
end

local function load_buyers_of_due(count)
  local names, known = {}, 0
  for number = first_hold, math.min(first_hold + count, order_count) - 1 do
    local order = orders[number]
    if byte(order) == HELD and created_at(order) + hold_millis <= now and buyers[buyer_of(order)] == nil then
      known = known + 1
      names[known] = buyer_of(order)
    end
  end
  load_buyers(names, 1, known)
end

local function expire(max)
  if not terms then return 0 end
  local released, looked_at = 0, 0
  while due and due <= now and released < max and looked_at < MAX_LOOKED_AT do
    local count = math.min(max - released, CHUNK, MAX_LOOKED_AT - looked_at)
    load_from_first_hold(count)
    load_buyers_of_due(count)
    local stop = math.min(first_hold + count, order_count)
    while first_hold < stop and created_at(orders[first_hold]) + hold_millis <= now do
      local order = orders[first_hold]
      if byte(order) == HELD then
        release(first_hold, order, EXPIRED, 'E')
        released = released + 1
      end
      first_hold = first_hold + 1
      looked_at = looked_at + 1
    end
    if first_hold == order_count then
      due = nil
    else
      local order = orders[first_hold] or call('HGET', ORDERS, first_hold)
      orders[first_hold] = order
      due = created_at(order) + hold_millis
    end
  end
  return released
end
