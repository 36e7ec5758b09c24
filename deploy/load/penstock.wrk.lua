-- A whole sale with wrk: each buyer looks at the sale, orders, pays and reads the order.
--
--   wrk -t 8 -c 8 -d 60s -s penstock.wrk.lua http://127.0.0.1:8080 -- SALE tokens.csv 8
--
-- wrk does not tell a script which connection an answer came on, so every thread needs exactly one (-c equal to -t).
-- Then a thread plays one buyer after the other, and an order stays with its buyer. wrk does not tell the number of
-- threads either, so the last argument does. Exits 1 if an answer is not one of a sale that goes well.

-- This part runs in wrk's own state, which knows all threads.
local threads = {}

function setup(thread)
  thread:set("thread_number", #threads)
  table.insert(threads, thread)
end

-- From here to `done`, the code runs in the state of one thread. `done` reads the global variables.
sold, sold_out, paid, read, put_off, unexpected = 0, 0, 0, 0, 0, 0
first_unexpected = ""

local sale, run, order
local tokens, buyer, step = {}, 1, "look"
local wait_milliseconds = 0

function init(args)
  local thread_count = tonumber(args[3])
  if not thread_count or thread_number >= thread_count then
    io.stderr:write("the arguments after -- are the sale, the file of tokens, and the same number as after -t\n")
    os.exit(2)
  end
  sale = args[1]
  -- Keys stay bound for as long as the sale exists, so each run needs new ones.
  run = os.time() .. "-" .. tostring(tokens):gsub("%W", "")
  local line_number = 0
  for line in assert(io.open(args[2])):lines() do
    if line_number % thread_count == thread_number then table.insert(tokens, line) end
    line_number = line_number + 1
  end
end

-- Sends the current step. After a lost connection it is sent again, under the same key.
function request()
  local headers = { Authorization = "Bearer " .. (tokens[buyer] or "") }
  if step == "look" then
    return wrk.format("GET", "/api/v1/sales/" .. sale)
  elseif step == "order" then
    headers["Content-Type"] = "application/json"
    headers["Idempotency-Key"] = "wrk-" .. run .. "-" .. buyer
    return wrk.format("POST", "/api/v1/sales/" .. sale .. "/orders", headers, '{"quantity":1}')
  elseif step == "pay" then
    return wrk.format("POST", "/api/v1/orders/" .. order .. "/pay", headers)
  end
  return wrk.format("GET", "/api/v1/orders/" .. order, headers)
end

function delay()
  return wait_milliseconds
end

local function next_buyer()
  buyer, step = buyer + 1, "look"
  if buyer > #tokens then
    io.stderr:write("thread " .. thread_number .. " has no more buyers\n")
    wrk.thread:stop()
  end
end

local function unexpectedly(status, body)
  unexpected = unexpected + 1
  if first_unexpected == "" then first_unexpected = step .. ": " .. status .. " " .. body end
  next_buyer()
end

function response(status, headers, body)
  wait_milliseconds = 0
  if not tokens[buyer] then
    -- There are more threads than buyers.
    next_buyer()
  elseif status == 429 or status == 503 then
    put_off = put_off + 1
    wait_milliseconds = 1000 * (tonumber(headers["retry-after"] or headers["Retry-After"]) or 1)
  elseif step == "look" and status == 200 then
    step = "order"
  elseif step == "order" and status == 201 then
    sold = sold + 1
    order, step = body:match('"id":"([^"]+)"'), "pay"
  elseif step == "order" and status == 409 and body:find('"sold_out"', 1, true) then
    sold_out = sold_out + 1
    next_buyer()
  elseif step == "pay" and status == 200 then
    paid = paid + 1
    step = "read"
  elseif step == "read" and status == 200 and body:find('"state":"paid"', 1, true) then
    read = read + 1
    next_buyer()
  else
    unexpectedly(status, body)
  end
end

-- This runs in wrk's own state again.
function done(summary)
  local function sum(name)
    local total = 0
    for _, thread in ipairs(threads) do total = total + thread:get(name) end
    return total
  end
  for _, name in ipairs({ "sold", "sold_out", "paid", "read", "put_off", "unexpected" }) do
    print(string.format("%-12s %d", name, sum(name)))
  end
  for _, thread in ipairs(threads) do
    local seen = thread:get("first_unexpected")
    if seen ~= "" then print("unexpected:  " .. seen) end
  end
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  if sum("unexpected") > 0 or lost > 0 then os.exit(1) end
end
