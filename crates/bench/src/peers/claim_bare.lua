-- One claim, as a shop would decide it inside Redis: one unit for each buyer, and the order in the same step.
--
-- KEYS[1]  units left, a number
-- KEYS[2]  buyers who have a unit, a set
-- KEYS[3]  orders, a stream
-- ARGV[1]  the buyer
--
-- Result: 1 accepted, 0 the buyer has a unit already, -1 nothing is left. If the claim is accepted, the unit,
-- the buyer and the order change together; otherwise nothing changes.

if redis.call("SISMEMBER", KEYS[2], ARGV[1]) == 1 then
   return 0
end
if tonumber(redis.call("GET", KEYS[1])) < 1 then
   return -1
end
redis.call("DECR", KEYS[1])
redis.call("SADD", KEYS[2], ARGV[1])
redis.call("XADD", KEYS[3], "*", "buyer", ARGV[1], "quantity", "1")
return 1
