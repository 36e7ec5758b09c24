-- Who waits for units of a sale that is sold out, in the order of `number`. A row goes when its buyer leaves or is offered
-- units; so what is here is what a ledger that has lost its list gets back.

CREATE TABLE waitlist (
    sale_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    buyer VARCHAR(160) NOT NULL,
    quantity BIGINT NOT NULL,
    joined_at BIGINT NOT NULL,
    PRIMARY KEY (sale_id, number),
    UNIQUE (sale_id, buyer),
    FOREIGN KEY (sale_id) REFERENCES sales (id)
);
