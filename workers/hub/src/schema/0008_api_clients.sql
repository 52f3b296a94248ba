-- Step 8: API clients. What one may do is here only for those that the configuration does not name.

CREATE TABLE api_clients (
    name       TEXT PRIMARY KEY,
    token_hash TEXT UNIQUE,                      -- NULL once it was taken away
    may        TEXT NOT NULL,                    -- JSON of Permissions
    made_at    INTEGER NOT NULL,
    add_key    TEXT NOT NULL,
    remove_key TEXT
) WITHOUT ROWID;
