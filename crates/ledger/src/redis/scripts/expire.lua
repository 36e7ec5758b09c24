-- expire ('e', needs a maximum): releases overdue holds and answers how many. Afterwards `due` says when to
-- ask again; if there may be more overdue holds, it is not after `now`.

-- The most orders looked at in one call. By then most are paid or cancelled, but finding that out takes time
-- too.
local MAX_LOOKED_AT = 4096

-- Reads in bulk the entries of the buyers who have the orders from `first_hold` to `stop` - 1.
local function load_buyers_until(stop)
  local names, count, is_listed = {}, 0, {}
  for number = first_hold, stop - 1 do
    local buyer = buyer_of(number)
    if buyers[buyer] == nil and not place_of[buyer] and not is_listed[buyer] then
      is_listed[buyer] = true
      count = count + 1
      names[count] = buyer
    end
  end
  for i, entry in ipairs(read_entries(names, 1, count)) do
    buyers[names[i]] = entry
  end
end

local function expire(max)
  if not terms then return 0 end
  local released, looked_at = 0, 0
  while due and due <= now and released < max and looked_at < MAX_LOOKED_AT do
    local stop = math.min(first_hold + math.min(max - released, MAX_LOOKED_AT - looked_at), order_count)
    load_buyers_until(stop)
    while first_hold < stop and due <= now do
      local buyer = buyer_of(first_hold)
      local entry = entry_of(buyer)
      local at = record_at(entry, first_hold)
      due = created_at(entry, at) + hold_millis
      if due <= now then
        if state_of(entry, at) == HELD then
          release(first_hold, buyer, entry, at, EXPIRED, 'E')
          released = released + 1
        end
        first_hold = first_hold + 1
        looked_at = looked_at + 1
      end
    end
    if first_hold == order_count then
      due = nil
    elseif due <= now then
      local entry = entry_of(buyer_of(first_hold))
      due = created_at(entry, record_at(entry, first_hold)) + hold_millis
    end
  end
  offer()
  return released
end
