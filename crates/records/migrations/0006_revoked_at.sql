-- When a session was ended: nodes of a cluster look for those that were ended since they last looked. Rows from before
-- are loaded when a node starts.

ALTER TABLE revoked_sessions ADD COLUMN revoked_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX revoked_sessions_by_time ON revoked_sessions (revoked_at);
