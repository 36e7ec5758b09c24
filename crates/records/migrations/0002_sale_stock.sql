-- One row a sale: what settlement has made of its stock. It is the last line of defence: units are taken only
-- while there are some, whatever the ledger decided. `remaining` is what the ledger calls available.

CREATE TABLE sale_stock (
    sale_id BIGINT NOT NULL PRIMARY KEY,
    units BIGINT NOT NULL,
    limit_per_buyer BIGINT NOT NULL,
    opens_at BIGINT,
    closes_at BIGINT,
    hold_seconds BIGINT NOT NULL,
    total BIGINT NOT NULL,
    remaining BIGINT NOT NULL,
    held BIGINT NOT NULL,
    paid BIGINT NOT NULL,
    paused INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    FOREIGN KEY (sale_id) REFERENCES sales (id)
);

-- Sales that were settled before: their units are in the stock log; whether they are paused or closed, only the
-- outbox tells, by the text of the sale's id: 13 characters of 5 bits, behind `{"sale":"`.
INSERT INTO sale_stock (sale_id, units, limit_per_buyer, opens_at, closes_at, hold_seconds, total, remaining,
    held, paid, paused, closed)
SELECT s.id, logged.published, s.limit_per_buyer, s.opens_at, s.closes_at, s.hold_seconds, logged.total,
    logged.total - logged.held - logged.paid, logged.held, logged.paid,
    CASE WHEN COALESCE(told.paused_at, 0) > COALESCE(told.resumed_at, 0) THEN 1 ELSE 0 END,
    CASE WHEN told.closed_at IS NULL THEN 0 ELSE 1 END
FROM sales s
JOIN (
    SELECT sale_id,
        SUM(CASE kind WHEN 'publish' THEN units ELSE 0 END) AS published,
        SUM(CASE kind WHEN 'publish' THEN units WHEN 'restock' THEN units ELSE 0 END) AS total,
        SUM(CASE kind WHEN 'hold' THEN units WHEN 'pay' THEN -units WHEN 'release' THEN -units ELSE 0 END) AS held,
        SUM(CASE kind WHEN 'pay' THEN units WHEN 'pay_late' THEN units ELSE 0 END) AS paid
    FROM stock_log GROUP BY sale_id
) logged ON logged.sale_id = s.id
LEFT JOIN (
    SELECT SUBSTR(payload, 10, 13) AS sale_text,
        MAX(CASE kind WHEN 'sale.paused' THEN position END) AS paused_at,
        MAX(CASE kind WHEN 'sale.resumed' THEN position END) AS resumed_at,
        MAX(CASE kind WHEN 'sale.closed' THEN position END) AS closed_at
    FROM outbox WHERE kind IN ('sale.paused', 'sale.resumed', 'sale.closed')
    GROUP BY SUBSTR(payload, 10, 13)
) told ON told.sale_text = CONCAT(
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 60) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 55) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 50) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 45) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 40) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 35) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 30) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 25) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 20) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 15) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 10) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', ((s.id >> 5) & 31) + 1, 1),
    SUBSTR('0123456789abcdefghjkmnpqrstvwxyz', (s.id & 31) + 1, 1))
WHERE logged.published > 0;

-- Numbers that are given out one by one, to one settler at a time: dead letters have one order over all streams.
CREATE TABLE counters (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    last_number BIGINT NOT NULL
);
INSERT INTO counters (name, last_number) SELECT 'dead_letters', COALESCE(MAX(id), 0) FROM dead_letters;
