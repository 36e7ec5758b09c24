-- Each time a ledger that may have lost its end asks how far a stream is settled, the stream's history begins a new
-- `epoch` and goes on under its number. Whoever still reads the history from before it can't settle it any more.

ALTER TABLE settlement_cursors ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0;
