-- Step 7: turns that two reporters tell of, the hooks and the mod inside Claude.

-- How often each has told of the same event. An event counts when its reporter's number exceeds the
-- other's.
CREATE TABLE told_events (
    launch TEXT NOT NULL,
    what   TEXT NOT NULL,                        -- name, prompt and a hash of the text
    hook   INTEGER NOT NULL DEFAULT 0,
    bridge INTEGER NOT NULL DEFAULT 0,
    at     INTEGER NOT NULL,
    PRIMARY KEY (launch, what)
) WITHOUT ROWID;
