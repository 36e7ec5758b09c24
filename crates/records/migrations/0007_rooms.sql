-- What has to be known of a sale's waiting room when the ledger's servers have lost it: the seed that its draw was
-- promised by, the numbers that were given out so far, and how many of them take part in the draw.

CREATE TABLE waiting_rooms (
    sale_id BIGINT NOT NULL PRIMARY KEY,
    seed VARCHAR(64) NOT NULL,
    issued BIGINT NOT NULL,
    early BIGINT,
    FOREIGN KEY (sale_id) REFERENCES sales (id)
);
