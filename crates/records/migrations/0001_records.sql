-- The system of record. Written for SQLite and MySQL/MariaDB alike: moments are BIGINT milliseconds, truth
-- values are INTEGER, ids are made by the caller. Names are compared byte by byte: a MySQL database has to
-- have a binary collation.

CREATE TABLE accounts (
    id BIGINT NOT NULL PRIMARY KEY,
    phone VARCHAR(32) NOT NULL UNIQUE,
    name VARCHAR(255) NOT NULL,
    password_hash VARCHAR(255) NOT NULL,
    is_admin INTEGER NOT NULL,
    sessions_valid_after BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX accounts_by_revocation ON accounts (sessions_valid_after);

CREATE TABLE revoked_sessions (
    session_id VARCHAR(128) NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

CREATE TABLE one_time_codes (
    phone VARCHAR(32) NOT NULL PRIMARY KEY,
    code_digest BLOB NOT NULL,
    expires_at BIGINT NOT NULL,
    tries_left INTEGER NOT NULL,
    window_started_at BIGINT NOT NULL,
    sent_in_window INTEGER NOT NULL
);

CREATE TABLE items (
    id BIGINT NOT NULL PRIMARY KEY,
    title VARCHAR(255) NOT NULL,
    description TEXT NOT NULL,
    picture VARCHAR(2048),
    regular_price_minor BIGINT NOT NULL,
    currency VARCHAR(3) NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX items_by_age ON items (created_at, id);

CREATE TABLE sales (
    id BIGINT NOT NULL PRIMARY KEY,
    item_id BIGINT NOT NULL,
    price_minor BIGINT NOT NULL,
    currency VARCHAR(3) NOT NULL,
    units BIGINT NOT NULL,
    limit_per_buyer BIGINT NOT NULL,
    opens_at BIGINT,
    closes_at BIGINT,
    hold_seconds BIGINT NOT NULL,
    gate TEXT NOT NULL,
    published_at BIGINT,
    created_at BIGINT NOT NULL,
    FOREIGN KEY (item_id) REFERENCES items (id)
);
CREATE INDEX sales_by_age ON sales (created_at, id);

-- The unique key of sale, buyer and idempotency key starts with the buyer, because it also finds a buyer's orders.
CREATE TABLE orders (
    sale_id BIGINT NOT NULL,
    order_number BIGINT NOT NULL,
    buyer VARCHAR(160) NOT NULL,
    quantity BIGINT NOT NULL,
    unit_price_minor BIGINT NOT NULL,
    currency VARCHAR(3) NOT NULL,
    state VARCHAR(16) NOT NULL,
    created_at BIGINT NOT NULL,
    pay_before BIGINT NOT NULL,
    paid_at BIGINT,
    refund_due INTEGER NOT NULL,
    key_high BIGINT NOT NULL,
    key_low BIGINT NOT NULL,
    PRIMARY KEY (sale_id, order_number),
    UNIQUE (buyer, sale_id, key_high, key_low),
    FOREIGN KEY (sale_id) REFERENCES sales (id)
);
CREATE INDEX orders_by_age ON orders (created_at, sale_id, order_number);

-- Every movement of units, one row a decision, only ever appended.
-- kind: publish, restock, hold, pay, pay_late (available to paid, after the hold had expired), release.
CREATE TABLE stock_log (
    stream VARCHAR(64) NOT NULL,
    position BIGINT NOT NULL,
    sale_id BIGINT NOT NULL,
    order_number BIGINT,
    kind VARCHAR(16) NOT NULL,
    units BIGINT NOT NULL,
    moved_at BIGINT NOT NULL,
    PRIMARY KEY (stream, position)
);
CREATE INDEX stock_log_by_order ON stock_log (sale_id, order_number);

CREATE TABLE settlement_cursors (
    stream VARCHAR(64) NOT NULL PRIMARY KEY,
    position BIGINT NOT NULL
);

CREATE TABLE dead_letters (
    id BIGINT NOT NULL PRIMARY KEY,
    stream VARCHAR(64) NOT NULL,
    position BIGINT NOT NULL,
    sale_id BIGINT NOT NULL,
    order_number BIGINT,
    decision TEXT NOT NULL,
    reason TEXT NOT NULL,
    tries BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    resolved_at BIGINT,
    UNIQUE (stream, position)
);
CREATE INDEX dead_letters_by_sale ON dead_letters (resolved_at, sale_id, order_number);

CREATE TABLE outbox (
    stream VARCHAR(64) NOT NULL,
    position BIGINT NOT NULL,
    kind VARCHAR(32) NOT NULL,
    payload TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    delivered_at BIGINT,
    PRIMARY KEY (stream, position)
);
