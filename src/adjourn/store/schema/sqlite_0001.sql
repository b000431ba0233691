-- The first schema of adjourn's SQLite store. The migration sets user_version; the application_id tells the
-- file from any other SQLite database ("adjn").
PRAGMA application_id = 1633970798;

-- (stream, seq) being unique is what makes an append a compare-and-swap. WITHOUT ROWID: an append then changes one
-- page instead of two (table and key), which halves what it writes; entries are mostly below 900 bytes, where rows do
-- not overflow. hash is text, so that people can read it with any SQLite tool.
CREATE TABLE event (
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 0),
    hash TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (stream, seq)
) WITHOUT ROWID;

CREATE TABLE ref (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- data is NULL once the bytes were forgotten. The row stays, so that they are not put again.
CREATE TABLE blob (
    hash TEXT NOT NULL PRIMARY KEY,
    data BLOB
);
