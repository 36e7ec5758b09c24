//! The SQL system of record: accounts, catalogue, orders, stock log, settlement cursor, dead letters, outbox, audit.
