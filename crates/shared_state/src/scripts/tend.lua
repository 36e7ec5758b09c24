-- tend: a node's look at a waiting room. One node at a time keeps the room.
-- It stores a view, which the others follow.
--
-- KEYS  1 the room (hash)   2 live passes (sorted set by deadline)
--       3 numbers whose turn became a pass (list)
--       4 who is there, as each node last told it (hash); all under one hash tag
-- ARGV  1 the time in milliseconds, or '' for this server's clock   2 the node
--       3 its fence as a keeper, 0 if it has none
--       4 for how many milliseconds it keeps the room from now on; 0: it does not want to keep it
--       5 the version of the view it knows   6 its new view, '' if nothing changed
--       7 how many entries of list 3 its stored view covers; they are removed   8 the seed of the room
--       9 '1' if it is time to tell who is there, and for the keeper to hear it
--       10 who is there, '' if not known
--       11 a live pass with no more time left than this is late, in milliseconds
-- Reply {role, fence, time, time of the keeper's last look, numbers so far, early ones or -1,
--       {live passes, late ones of them},
--       version of the sale's status that shows all orders whose passes were used, version of the view,
--       view or '' if the node knows it, list 3,
--       who is there as the nodes last told it, or nil if the node did not ask}; nil if there is no such room
--       Role 0: another node keeps the room. 1: this one. 2: this one from now on.
--
-- Guarantees: A view is stored only under the fence of the current keeper, and every new keeper gets a higher
-- fence. A new keeper gets the last stored view and everything since. A view in the reply is followed by a
-- write, so that WAIT tells whether it lasts. A room lives for 30 days after it was last kept.

local SECONDS, TOLD_MILLIS = 30 * 86400, 5000

local room = call('HMGET', KEYS[1], 'seed', 'keeper', 'fence', 'kept_until', 'kept_at', 'version', 'sale_version')
if not room[1] then
  return false
elseif room[1] ~= ARGV[8] then
  return other_seed()
end
local now = time_at(ARGV[1])
local next, early = opened(KEYS[1], now)
call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if ARGV[10] ~= '' then
  call('HSET', KEYS[4], ARGV[2], now .. ' ' .. ARGV[10])
  call('PEXPIRE', KEYS[4], 12 * TOLD_MILLIS)
end

local keeper, fence, kept_at = room[2], tonumber(room[3]) or 0, tonumber(room[5]) or now
local version, known = tonumber(room[6]) or 0, tonumber(ARGV[5])
local keeps = keeper == ARGV[2] and fence == tonumber(ARGV[3])
local is_free = not keeper or keeper == ARGV[2] or now >= tonumber(room[4])
local role, wanted = 0, tonumber(ARGV[4]) > 0
if keeps then
  role = 1
  if ARGV[6] ~= '' then
    version = version + 1
    known = version
    call('HSET', KEYS[1], 'view', ARGV[6], 'version', version)
  end
  call('LTRIM', KEYS[3], ARGV[7], -1)
elseif wanted and is_free then
  role, known = 2, -1
  fence = fence + 1
end
if role > 0 and wanted then
  call('HSET', KEYS[1], 'keeper', ARGV[2], 'fence', fence, 'kept_until', now + ARGV[4], 'kept_at', now)
  -- A room that nobody keeps expires in the end.
  call('EXPIRE', KEYS[1], SECONDS)
elseif role > 0 then
  call('HDEL', KEYS[1], 'keeper')
  role = 0
end

-- The last report of each node. A node that has been silent for a while counts as gone.
local function who_is_there()
  local there, nodes = {}, call('HGETALL', KEYS[4])
  for place = 1, #nodes, 2 do
    local at = string.find(nodes[place + 1], ' ', 1, true)
    if now - tonumber(string.sub(nodes[place + 1], 1, at - 1)) > TOLD_MILLIS then
      call('HDEL', KEYS[4], nodes[place])
    else
      there[#there + 1] = string.sub(nodes[place + 1], at + 1)
    end
  end
  return there
end

local passes = {call('ZCARD', KEYS[2]), call('ZCOUNT', KEYS[2], '-inf', now + ARGV[11])}
local view, taken, there = '', {}, false
if version ~= known then
  view = call('HGET', KEYS[1], 'view') or ''
  -- The view may not be on a replica yet, and WAIT covers only what was written before it.
  call('HSET', KEYS[1], 'told', now)
end
if role > 0 then
  taken = call('LRANGE', KEYS[3], 0, -1)
  if role == 2 or ARGV[9] == '1' then
    there = who_is_there()
  end
end
return {role, fence, now, kept_at, next, early, passes, tonumber(room[7]) or 0, version, view, taken, there}
