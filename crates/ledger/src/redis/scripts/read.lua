-- read: some entries of a sale's feed and the epoch of their history, in one step. It changes nothing.
--
-- KEYS  1 the sale (hash)   2 its feed (stream)
-- ARGV  1 the position that the first entry has to contain   2 how many entries at most
-- Reply {epoch, entries as XRANGE answers them}

local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or 0)
return {epoch, redis.call('XRANGE', KEYS[2], ARGV[1] .. '-0', '+', 'COUNT', ARGV[2])}
