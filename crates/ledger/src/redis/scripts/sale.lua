-- publish ('u', needs the packed terms), restock ('s', needs units and the most a sale may have), pause
-- ('z'), resume ('w') and close ('l') the sale. They answer the counts afterwards, or a number below 0.

-- A sale that is not here may be new or lost. It can't be published before it was compared with the records
-- on this very server (adopt.lua), nor while it is being brought back.
if not terms and find(ARGV[3], 'u', 1, true) then
  local compared = call('HMGET', SALE, 'looked', 'token')
  if compared[1] ~= home or compared[2] then
    return {0, now}
  end
end

local function publish(packed_terms)
  if not terms then
    terms = packed_terms
    read_terms()
    total = unpack_bytes('<I4', terms)
    available = total
    decided('U' .. terms)
  end
  return counts()
end

local function restock(units, most)
  if not terms then return UNKNOWN_SALE end
  if is_closed() then return CLOSED end
  if units > most - total then return TOO_MANY_UNITS end
  if units > 0 then
    total = total + units
    available = available + units
    decided(pack('<c1I4', 'S', units))
    offer()
  end
  return counts()
end

local function set_paused(wanted)
  if not terms then return UNKNOWN_SALE end
  if is_closed() then return CLOSED end
  if paused ~= wanted then
    paused = wanted
    decided(wanted and 'Z' or 'W')
    offer()
  end
  return counts()
end

local closed_at
local function close()
  if not terms then return UNKNOWN_SALE end
  -- A forgotten sale is over, even if the end of its window closed it.
  if not closed and not forgotten then
    closed = true
    closed_at = now
    decided('X')
  end
  return counts()
end
