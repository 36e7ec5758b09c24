-- The hot row, for sysbench: every client takes one unit of the same stock row and inserts its order.
--
-- prepare   creates the database, the tables and the procedure, from nothing
-- run       one event = one order; prints "hot_row events=N seconds=S p50_ms=M"
-- cleanup   fails unless units gone = orders made
--
-- --form=procedure   the transaction is a stored procedure: one round trip, the row is locked the shortest
-- --form=statements  the transaction is sent from the client as prepared UPDATE, INSERT and COMMIT

local UNITS = 100000000

sysbench.cmdline.options = {
   form = { "procedure or statements", "procedure" },
   round = { "a number that keeps the buyers of two runs apart", 0 },
}

function prepare()
   local connection = sysbench.sql.driver():connect()
   connection:query("DROP DATABASE IF EXISTS bench")
   connection:query("CREATE DATABASE bench")
   connection:query("CREATE TABLE bench.stock (id INT PRIMARY KEY, count INT NOT NULL) ENGINE = InnoDB")
   -- The unique key is the limit per buyer, which Penstock keeps too.
   connection:query([[CREATE TABLE bench.orders (
      id BIGINT AUTO_INCREMENT PRIMARY KEY, sale_id INT NOT NULL, buyer VARCHAR(64) NOT NULL,
      quantity INT NOT NULL, created_at DATETIME(3) NOT NULL, UNIQUE KEY (sale_id, buyer)) ENGINE = InnoDB]])
   connection:query("INSERT INTO bench.stock VALUES (1, " .. UNITS .. ")")
   connection:query([[CREATE PROCEDURE bench.buy(buyer VARCHAR(64))
      BEGIN
         START TRANSACTION;
         UPDATE bench.stock SET count = count - 1 WHERE id = 1 AND count > 0;
         IF ROW_COUNT() > 0 THEN
            INSERT INTO bench.orders (sale_id, buyer, quantity, created_at) VALUES (1, buyer, 1, NOW(3));
         END IF;
         COMMIT;
      END]])
end

local connection, update, insert, commit, buyer
local made = 0

function thread_init()
   connection = sysbench.sql.driver():connect()
   if sysbench.opt.form == "statements" then
      connection:query("SET SESSION autocommit = 0")
      update = connection:prepare("UPDATE bench.stock SET count = count - 1 WHERE id = 1 AND count > 0")
      insert = connection:prepare([[INSERT INTO bench.orders (sale_id, buyer, quantity, created_at)
         SELECT 1, ?, 1, NOW(3) FROM DUAL WHERE ROW_COUNT() > 0]])
      commit = connection:prepare("COMMIT")
      buyer = insert:bind_create(sysbench.sql.type.VARCHAR, 64)
      insert:bind_param(buyer)
   end
end

function event()
   made = made + 1
   local name = string.format("buyer-%d-%d-%d", sysbench.opt.round, sysbench.tid, made)
   if sysbench.opt.form == "statements" then
      update:execute()
      buyer:set(name)
      insert:execute()
      commit:execute()
   else
      connection:query("CALL bench.buy('" .. name .. "')")
   end
end

function sysbench.hooks.report_cumulative(stat)
   print(string.format("hot_row events=%d seconds=%.6f p50_ms=%.3f",
      stat.events, stat.time_total, stat.latency_pct * 1000))
end

function cleanup()
   local connection = sysbench.sql.driver():connect()
   local gone = connection:query_row("SELECT " .. UNITS .. " - count FROM bench.stock WHERE id = 1")
   local orders = connection:query_row("SELECT COUNT(*) FROM bench.orders")
   if gone ~= orders or tonumber(orders) == 0 then
      error(string.format("%s units are gone, but there are %s orders", gone, orders))
   end
end
