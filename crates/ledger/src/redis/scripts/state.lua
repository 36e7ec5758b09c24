-- state: a sale, some of its orders and some of its waiters, at one moment. It changes nothing.
--
-- KEYS  1 the sale (hash)   2 its buyers (hash)   3 the buyers of its orders (hash)   4 its waitlist (sorted set)
--       5 its waiters (hash)
-- ARGV  1 the number of the first order, a multiple of PAGE; as many waiters are skipped   2 the most orders,
--       and the most waiters, to answer   3… the fields of the sale to answer
-- Reply {values of the fields, {order, …}, {buyer, entry, …}}; the orders come by number, each as its record
--       and its buyer; the waiters come in the order of the waitlist.

local PAGE, RECORD = 64, 41
local sale = redis.call('HMGET', KEYS[1], unpack(ARGV, 3))
local first, orders = tonumber(ARGV[1]), {}
local stop = math.min(first + tonumber(ARGV[2]), tonumber(redis.call('HGET', KEYS[1], 'orders') or 0))

for page = first / PAGE, math.ceil(stop / PAGE) - 1 do
  local names = {}
  for name in string.gmatch(redis.call('HGET', KEYS[3], page) or '', '[^\n]+') do
    names[#names + 1] = name
  end
  local entries = #names > 0 and redis.call('HMGET', KEYS[2], unpack(names)) or {}
  for i = 1, #names do
    local number, entry = struct.pack('<I4', page * PAGE + i - 1), entries[i]
    local at = string.find(entry, number, 5, true)
    while (at - 5) % RECORD ~= 0 do
      at = string.find(entry, number, at + 1, true)
    end
    orders[#orders + 1] = string.sub(entry, at, at + RECORD - 1) .. names[i]
  end
end

local line, waiters = redis.call('ZRANGE', KEYS[4], first, first + tonumber(ARGV[2]) - 1), {}
for i, buyer in ipairs(line) do
  waiters[2 * i - 1], waiters[2 * i] = buyer, redis.call('HGET', KEYS[5], buyer)
end
return {sale, orders, waiters}
