-- Step 5: tasks, their runs, and asks whose asker is not the agent of the thread.

CREATE TABLE tasks (
    name     TEXT PRIMARY KEY,
    schedule TEXT,                               -- pattern and zone as they are followed
    cursor   INTEGER,                            -- everything that was due up to here is done with
    next_at  INTEGER,                            -- when it is due next, as the tasks worker last said
    enabled  INTEGER,                            -- a person's word; NULL is the configuration's
    failures INTEGER NOT NULL DEFAULT 0,         -- since the last success
    card     TEXT,                               -- the failure card of this run of failures
    card_at  INTEGER                             -- when the first of them was
) WITHOUT ROWID;

CREATE TABLE runs (
    id         TEXT PRIMARY KEY,
    task       TEXT NOT NULL,
    trigger    TEXT NOT NULL,                    -- schedule, manual
    state      TEXT NOT NULL,                    -- queued, running, succeeded, failed, interrupted, skipped
    agent      TEXT,                             -- the thread of its posts and asks: its owner's
    runs_in    TEXT,                             -- the agent whose turn it is, for a persistent task
    message_id TEXT,                             -- the message its prompt was delivered as, likewise
    token_hash TEXT,                             -- of its own process, while it runs
    due_at     INTEGER,
    started_at INTEGER,
    ended_at   INTEGER,
    attempts   INTEGER NOT NULL DEFAULT 0,
    exit_code  INTEGER,
    error      TEXT,
    log_path   TEXT
) WITHOUT ROWID;
CREATE UNIQUE INDEX runs_due ON runs (task, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX runs_of_task ON runs (task, id);
CREATE INDEX runs_open ON runs (state) WHERE state IN ('queued', 'running');
CREATE INDEX runs_token ON runs (token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX runs_message ON runs (message_id) WHERE message_id IS NOT NULL;

ALTER TABLE asks ADD COLUMN asker TEXT;          -- the agent that asked, where it is not the thread's
