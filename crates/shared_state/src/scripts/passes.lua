-- passes: decides on several requests for a pass in one sale, in their order.
--
-- KEYS  1 live passes (sorted set by deadline)   2 turns that became a pass (a bit for each number)
--       3 numbers whose turn became a pass (list)   4… used challenges (a set for each time of issue);
--       all under one hash tag
-- ARGV  1 the time in milliseconds, or '' for this server's clock
--       2 how long a pass is good, in milliseconds   3 live passes that are not late allowed per unit left
--       4 a live pass with no more time left than this is late, in milliseconds   5 the most live passes
--       6 the most used challenges in a set   7 how long a set is kept, in milliseconds
--       then for each request: a fingerprint of the buyer, the number of their ticket or '', units left,
--       the index in KEYS of the set for their challenge (0: none needed), the fingerprint of the challenge,
--       1 if it is met, when their turn is over for good, in milliseconds, or ''
-- Reply {time, live passes, answer, answer, …}: the deadline of the pass, in milliseconds, or a refusal below
--
-- Guarantees: Of all requests with the same challenge, at most one is not told CHALLENGE_FAILED. A turn
-- becomes at most one new pass, and none once it is over. A buyer with a live pass gets the same one again. A
-- new pass never makes more live passes that are not late than the units left allow. A request refused for
-- any other reason does not use up its challenge.

local TURN_USED, EXHAUSTED, TOO_MANY_PASSES, CHALLENGE_FAILED, TOO_MANY_CHALLENGES, TURN_OVER = -1, -2, -3, -4, -5, -6
local DAY_SECONDS, FIELDS = 86400, 7

local now = time_at(ARGV[1])
local pass_millis, factor, late_millis = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local max_live, max_used, used_millis = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local live = call('ZCARD', KEYS[1])
local late = call('ZCOUNT', KEYS[1], '-inf', now + late_millis)

-- Nil if the challenge was unused and is met. Marks it as used.
local function redeem(key, fingerprint, is_met)
  if call('SADD', key, fingerprint) == 0 then
    return CHALLENGE_FAILED
  end
  if call('SCARD', key) > max_used then
    call('SREM', key, fingerprint)
    return TOO_MANY_CHALLENGES
  end
  call('PEXPIRE', key, used_millis)
  if is_met ~= '1' then
    return CHALLENGE_FAILED
  end
end

local function decide(buyer, number, available, used, fingerprint, is_met, turn_until)
  local deadline = tonumber(call('ZSCORE', KEYS[1], buyer))
  if not deadline then
    if number ~= '' and call('GETBIT', KEYS[2], number) == 1 then
      return TURN_USED
    elseif turn_until ~= '' and now >= tonumber(turn_until) then
      return TURN_OVER
    elseif live - late >= factor * available then
      return EXHAUSTED
    elseif live >= max_live then
      return TOO_MANY_PASSES
    end
  end
  local refusal = used > 0 and redeem(KEYS[used], fingerprint, is_met)
  if refusal then
    return refusal
  end
  if not deadline then
    deadline = now + pass_millis
    call('ZADD', KEYS[1], deadline, buyer)
    call('PEXPIRE', KEYS[1], pass_millis + 60000)
    live = live + 1
  end
  if number ~= '' and call('SETBIT', KEYS[2], number, 1) == 0 then
    call('RPUSH', KEYS[3], number)
    call('EXPIRE', KEYS[2], DAY_SECONDS)
    call('EXPIRE', KEYS[3], DAY_SECONDS)
  end
  return deadline
end

local answers = {now, live}
for first = 8, #ARGV, FIELDS do
  answers[#answers + 1] = decide(ARGV[first], ARGV[first + 1], tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3]),
    ARGV[first + 4], ARGV[first + 5], ARGV[first + 6])
end
answers[2] = live
return answers
