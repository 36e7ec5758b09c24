-- The secret that the nodes of a cluster sign tokens with, and the one before it. `rotated_at` is by the database's clock.

CREATE TABLE secrets (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    current_secret VARCHAR(255) NOT NULL,
    previous_secret VARCHAR(255),
    rotated_at BIGINT NOT NULL
);
