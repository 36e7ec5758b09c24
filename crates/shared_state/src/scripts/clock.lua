-- Put before each script of the gate: the time, and the opening of a waiting room.
local call = redis.call

-- Two seeds are two draws, so a node with another seed must not take part.
local function other_seed()
  return redis.error_reply('SEED the waiting room has another seed than this node')
end

-- Milliseconds since 1970: `moment` if it is given, otherwise this server's clock.
local function time_at(moment)
  if moment ~= '' then
    return tonumber(moment)
  end
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The first look at or after the opening fixes how many numbers are early: all that nodes have got so far.
-- Returns the numbers so far and the early ones; -1 before the opening.
local function opened(room, now)
  local fields = call('HMGET', room, 'next', 'early', 'opens_at')
  local next, early = tonumber(fields[1]) or 0, tonumber(fields[2])
  if not early and now >= tonumber(fields[3]) then
    early = next
    call('HSET', room, 'early', early)
  end
  return next, early or -1
end
