-- state: a sale and some of its orders at one moment. It changes nothing.
--
-- KEYS  1 the sale (hash)   2 its orders (hash)
-- ARGV  1 the number of the first order   2 how many orders at most   3… the fields of the sale to answer
-- Reply {values of the fields, {packed order, …}}; the orders are in the order of their numbers.

local CHUNK = 3500
local sale = redis.call('HMGET', KEYS[1], unpack(ARGV, 3))
local first, orders = tonumber(ARGV[1]), {}
local stop = math.min(first + tonumber(ARGV[2]), tonumber(redis.call('HGET', KEYS[1], 'orders') or 0))
for from = first, stop - 1, CHUNK do
  local numbers = {}
  for number = from, math.min(from + CHUNK, stop) - 1 do
    numbers[#numbers + 1] = number
  end
  for _, order in ipairs(redis.call('HMGET', KEYS[2], unpack(numbers))) do
    orders[#orders + 1] = order
  end
end
return {sale, orders}
