-- One integer key for events: the number of the stream in the upper bits, the seq in the lower forty. A row that goes
-- behind the last one of a table with such a key changes one page; the text key of the first schema made SQLite
-- rewrite about three. A position being unique is what makes an append a compare-and-swap.
CREATE TABLE stream (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
INSERT INTO stream (name) SELECT DISTINCT stream FROM event ORDER BY stream;

-- hash is text, so that people can read it with any SQLite tool; the view `entry` is for them, too.
CREATE TABLE new_event (
    position INTEGER PRIMARY KEY,
    hash TEXT NOT NULL,
    data BLOB NOT NULL
);
INSERT INTO new_event
    SELECT stream.id << 40 | event.seq, event.hash, event.data
    FROM stream JOIN event ON event.stream = stream.name
    ORDER BY stream.id, event.seq;
DROP TABLE event;
ALTER TABLE new_event RENAME TO event;

CREATE VIEW entry AS
    SELECT stream.name AS stream, position & 1099511627775 AS seq, hash, data
    FROM event JOIN stream ON stream.id = position >> 40;
