-- The first schema of adjourn's PostgreSQL store. The names are not qualified: the tables are made in the first
-- schema of the connection's search_path. The migration writes the version.
CREATE TABLE adjourn_schema (
    version integer NOT NULL
);
INSERT INTO adjourn_schema VALUES (0);

-- Every key begins with the stream, so that the table can be partitioned or distributed by it.
-- COLLATE "C": names are compared and sorted by code point, as the other stores do.
CREATE TABLE adjourn_event (
    stream text COLLATE "C" NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 0),
    hash text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (stream, seq)
);

CREATE TABLE adjourn_ref (
    name text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- data is NULL once the bytes were forgotten. The row stays, so that they are not put again.
CREATE TABLE adjourn_blob (
    hash text COLLATE "C" PRIMARY KEY,
    data bytea
);
