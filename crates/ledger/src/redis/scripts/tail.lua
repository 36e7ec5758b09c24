-- Runs the commands, writes the results in few calls, and answers. The letters of the commands are described
-- at their functions. A decision is a letter and its parts, as codec.rs unpacks them.

local reply = {1, now, '', '', position_before}
local claims_seen, orders_seen, next_argument = 0, 0, ASKER_AT + asked_count
local function argument()
  next_argument = next_argument + 1
  return ARGV[next_argument]
end

local function run(letter)
  if letter == 'p' or letter == 'x' or letter == 'f' then
    orders_seen = orders_seen + 1
    if letter == 'p' then return confirm(orders_seen) end
    if letter == 'x' then return cancel(orders_seen) end
    return find_order(orders_seen)
  end
  if letter == 'o' then
    local buyer = argument()
    return orders_of(buyer, tonumber(argument()))
  end
  if letter == 'e' then return expire(tonumber(argument())) end
  if letter == 'j' then
    local buyer, quantity = argument(), tonumber(argument())
    return waitlist.join(buyer, quantity, tonumber(argument()))
  end
  if letter == 'd' then return waitlist.leave(argument()) end
  if letter == 'q' then return waitlist.find_place(argument()) end
  local answer
  if letter == 'u' then
    answer = publish(argument())
  elseif letter == 's' then
    local units = tonumber(argument())
    answer = restock(units, tonumber(argument()))
  elseif letter == 'z' or letter == 'w' then
    answer = set_paused(letter == 'z')
  elseif letter == 'l' then
    answer = close()
  end
  judge_window()
  return answer
end

offer()
local commands = ARGV[3]
local CLAIM, RECALL = byte('c'), byte('r')
for i = 1, #commands do
  local letter = byte(commands, i)
  if letter == CLAIM or letter == RECALL then
    claims_seen = claims_seen + 1
    reply[5 + i] = claim(claims_seen, letter == RECALL)
  else
    reply[5 + i] = run(char(letter))
  end
end

if terms then
  reply[3], reply[4] = terms, counts()
end

if total ~= available + held + paid or available < 0 or held < 0 or paid < 0 then
  return redis.error_reply('INVARIANT units are not conserved')
end
if waiting > 0 and available > 0 then
  judge_window()
  if not refusal then return redis.error_reply('INVARIANT units are on sale while somebody waits for them') end
end

-- Writes the names of the new orders. A page that an earlier batch began is written again.
local function write_names()
  local begun = first_number % PAGE
  local number = first_number
  while number < order_count do
    local page = math.floor(number / PAGE)
    local stop = math.min((page + 1) * PAGE, order_count)
    local names = table.concat(new_names, '\n', number - first_number + 1, stop - first_number) .. '\n'
    if number == first_number and begun > 0 then
      names = call('HGET', NAMES, page) .. names
    end
    call('HSET', NAMES, page, names)
    number = stop
  end
end

if position > position_before then
  end_run()
  write_names()
  if waitlist then waitlist.write() end
  for from = 1, changed_count, 2 * CHUNK do
    call('HSET', BUYERS, unpack(changed, from, math.min(from + 2 * CHUNK - 1, changed_count)))
  end
  call('HSET', SALE, 'terms', terms, 'total', total, 'available', available, 'held', held, 'paid', paid,
    'paused', paused and 1 or 0, 'closed', closed and 1 or 0, 'position', position, 'epoch', epoch,
    'orders', order_count, 'first_hold', first_hold, 'due', due or '', 'clock', now, 'home', home)
  if closed_at then
    call('HSET', SALE, 'closed_at', closed_at)
  end
  -- The entry: first position, time, number of the first new order, then the decisions.
  call('XADD', FEED, string.format('%.0f-0', position), 'n', ARGV[2],
    'd', pack('<i8i8I4', position_before + 1, now, first_number) .. table.concat(pieces, '', 1, piece_count))
else
  if (due or '') ~= (tonumber(sale[11]) or '') then
    -- Nothing was decided, but finished orders were passed over. That is not a decision, so there is no
    -- entry.
    call('HSET', SALE, 'first_hold', first_hold, 'due', due or '')
  end
  if ARGV[6] == '1' and terms and not forgotten then
    -- The answers may rest on unconfirmed writes of another call. Any later write makes WAIT cover those too,
    -- so the time is written once more.
    call('HSET', SALE, 'clock', now)
  end
end
return reply
