-- What is known of a file's bytes belongs to `content`, made once for all paths, branches and work trees that have them.
CREATE TABLE content (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    language TEXT NOT NULL,
    engine TEXT NOT NULL,
    lines INTEGER NOT NULL,
    marks BLOB NOT NULL,
    worded INTEGER NOT NULL
);
-- Contents whose chunks are not in chunk_words yet.
CREATE INDEX content_unworded ON content (id) WHERE worded = 0;
CREATE TABLE tree (
    id INTEGER PRIMARY KEY,
    root TEXT NOT NULL UNIQUE,
    synced REAL
);
CREATE TABLE file (
    tree INTEGER NOT NULL,
    path TEXT NOT NULL,
    content INTEGER NOT NULL,
    mtime INTEGER NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (tree, path)
) WITHOUT ROWID;
CREATE INDEX file_content ON file (content, tree);
CREATE TABLE name (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE symbol (
    content INTEGER NOT NULL,
    number INTEGER NOT NULL,
    name INTEGER NOT NULL,
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    name_start INTEGER NOT NULL,
    signature TEXT NOT NULL,
    PRIMARY KEY (content, number)
) WITHOUT ROWID;
CREATE INDEX symbol_name ON symbol (name);
-- Any part of a symbol's name; a row is a name's.
CREATE VIRTUAL TABLE name_trigram USING fts5 (name, content = '', columnsize = 0, tokenize = 'trigram');
-- Which contents have a word; a row is a content's. Where it stands is found in the file, which is read for its lines anyway.
CREATE VIRTUAL TABLE content_words USING fts5 (
    words, content = '', columnsize = 0, detail = 'none', tokenize = "unicode61 tokenchars '_'"
);
-- In how many contents a word is.
CREATE VIRTUAL TABLE word USING fts5vocab (content_words, row);
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    content INTEGER NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    signature TEXT NOT NULL,
    doc TEXT NOT NULL,
    start_byte INTEGER NOT NULL,
    end_byte INTEGER NOT NULL
);
CREATE INDEX chunk_content ON chunk (content);
CREATE VIRTUAL TABLE chunk_words USING fts5 (name, doc, text, content = '', tokenize = 'porter unicode61');
