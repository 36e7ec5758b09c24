-- The last code that an address asked for, beside the last one that was sent to the phone at all (one_time_codes): others who ask for
-- codes, or guess them, neither replace it nor use it up.
CREATE TABLE codes_by_origin (
    phone VARCHAR(32) NOT NULL,
    origin VARCHAR(64) NOT NULL,
    code_digest BLOB NOT NULL,
    expires_at BIGINT NOT NULL,
    tries_left INTEGER NOT NULL,
    window_started_at BIGINT NOT NULL,
    sent_in_window INTEGER NOT NULL,
    PRIMARY KEY (phone, origin)
);
