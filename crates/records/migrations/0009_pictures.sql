-- Pictures of items, named after what is in them: the same picture twice is one row. A BLOB of MySQL would end at 64 KiB.

CREATE TABLE pictures (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    content MEDIUMBLOB NOT NULL,
    created_at BIGINT NOT NULL
);
