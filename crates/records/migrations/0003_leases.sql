-- Several settlers share the streams: one at a time has a stream's lease. Whoever takes a lease raises `fence`, and a
-- cursor moves only by the fence of its lease, so a settler that slept through the end of its lease can't write.
-- `mark` is the fingerprint of the stream's history at the cursor. `lease_until` is by the database's clock.

ALTER TABLE settlement_cursors ADD COLUMN mark VARCHAR(32) NOT NULL DEFAULT '00000000000000000000000000000000';
ALTER TABLE settlement_cursors ADD COLUMN owner VARCHAR(64) NOT NULL DEFAULT '';
ALTER TABLE settlement_cursors ADD COLUMN lease_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE settlement_cursors ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
