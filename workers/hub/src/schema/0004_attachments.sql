-- Step 4: uploads that wait for their message, and the end of files that are no longer kept.

CREATE TABLE uploads (
    id       TEXT PRIMARY KEY,
    agent    TEXT,                               -- NULL: the first message's that sends it
    filename TEXT NOT NULL,
    mime     TEXT NOT NULL,
    bytes    INTEGER NOT NULL,
    sha256   TEXT NOT NULL,
    path     TEXT NOT NULL,
    key      TEXT NOT NULL UNIQUE,
    at       INTEGER NOT NULL,
    expired  INTEGER NOT NULL DEFAULT 0          -- its folder is being removed, the row goes after it
) WITHOUT ROWID;

ALTER TABLE attachments ADD COLUMN sha256 TEXT;
-- Files that are kept, and files that are not and whose folder may still be there (path <> '').
CREATE INDEX attachments_kept ON attachments (message_id) WHERE available = 1;
CREATE INDEX attachments_gone ON attachments (id) WHERE available = 0 AND path <> '';
