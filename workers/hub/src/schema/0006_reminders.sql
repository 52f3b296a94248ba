-- Step 6: reminders.

CREATE TABLE reminders (
    id         TEXT PRIMARY KEY,
    agent      TEXT NOT NULL,                    -- the thread it posts into, resolved when it was scheduled
    text       TEXT NOT NULL,                    -- emptied once it is settled: the message has it
    bytes      INTEGER NOT NULL,                 -- of the text, so that open ones are weighed by the index
    due        INTEGER NOT NULL,                 -- milliseconds since 1970, UTC
    state      TEXT NOT NULL,                    -- open, fired, cancelled
    task       TEXT,                             -- of the run that scheduled it
    run_id     TEXT,
    made_at    INTEGER NOT NULL,
    settled_at INTEGER,
    call_key   TEXT NOT NULL,
    cancel_key TEXT,
    message_id TEXT                              -- what it became when it fired
) WITHOUT ROWID;
CREATE UNIQUE INDEX reminders_key ON reminders (agent, call_key);
CREATE INDEX reminders_due ON reminders (due) WHERE state = 'open';
CREATE INDEX reminders_thread ON reminders (agent, due, bytes) WHERE state = 'open';
CREATE INDEX reminders_settled ON reminders (settled_at) WHERE state <> 'open';
