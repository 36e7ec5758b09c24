-- Why a decision is a dead letter, by a name of its own beside the words in `reason`.

ALTER TABLE dead_letters ADD COLUMN cause VARCHAR(32) NOT NULL DEFAULT 'unknown';
