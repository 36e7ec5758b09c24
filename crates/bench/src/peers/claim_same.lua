-- One claim with the rules of Penstock's ledger, as a careful shop would decide it inside Redis. It checks
-- the sale's window and the limit per buyer, answers a retry with the same key with its order, stores the
-- order under its number, and passes it on for settlement, all in one step.
--
-- KEYS[1]  the sale, a hash: available, orders, limit, hold (ms), opens and closes (ms), paused
-- KEYS[2]  buyers, a hash: units, then key, number and quantity of each order
-- KEYS[3]  orders by their number, a hash: buyer, quantity, state, until when they are held
-- KEYS[4]  orders to settle, a stream
-- ARGV[1]  the buyer   ARGV[2]  the key   ARGV[3]  the quantity
--
-- Result: the order's number; -1 nothing is left, -2 the buyer has enough, -3 not now, -4 the key was used
-- for another quantity. If the claim is accepted, everything changes together; otherwise nothing changes.

local call = redis.call
local sale = call("HMGET", KEYS[1], "available", "orders", "limit", "hold", "opens", "closes", "paused")
local buyer, key, quantity = ARGV[1], ARGV[2], tonumber(ARGV[3])
local entry = call("HGET", KEYS[2], buyer)
local units, orders = 0, ""
if entry then
   local first = string.find(entry, " " .. key .. ":", 1, true)
   if first then
      local number, of = string.match(entry, "(%d+):(%d+)", first + #key + 2)
      return tonumber(of) == quantity and tonumber(number) or -4
   end
   units, orders = string.match(entry, "^(%d+)(.*)$")
end
local time = call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if sale[7] == "1" or now < tonumber(sale[5]) or now >= tonumber(sale[6]) then
   return -3
end
if units + quantity > tonumber(sale[3]) then
   return -2
end
local available = tonumber(sale[1])
if available < quantity then
   return -1
end
local number = tonumber(sale[2]) + 1
call("HSET", KEYS[1], "available", available - quantity, "orders", number)
call("HSET", KEYS[2], buyer, units + quantity .. orders .. " " .. key .. ":" .. number .. ":" .. quantity)
call("HSET", KEYS[3], number, buyer .. " " .. quantity .. " held " .. string.format("%.0f", now + sale[4]))
call("XADD", KEYS[4], "*", "order", number, "buyer", buyer, "key", key, "quantity", quantity)
return number
