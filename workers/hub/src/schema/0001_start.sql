-- Step 1: threads, deliveries, turns, agents and the event journal.
-- A step is never edited once it has shipped; a later step changes what it made.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE agents (
    name             TEXT PRIMARY KEY,
    config           TEXT NOT NULL,              -- JSON of AgentConfig
    source           TEXT NOT NULL,
    put_key          TEXT,                       -- idempotency key of the request that made it
    desired          TEXT NOT NULL,
    removed          INTEGER NOT NULL DEFAULT 0,
    status           TEXT NOT NULL DEFAULT 'stopped',
    activity         TEXT NOT NULL DEFAULT 'unknown',
    waiting_for      TEXT,
    session_id       TEXT,
    transcript_path  TEXT,
    resume_session   TEXT,
    launch           TEXT,                       -- the current launch, NULL while stopped
    pane             TEXT,
    pid              INTEGER,
    route            TEXT,
    restarts         INTEGER NOT NULL DEFAULT 0,
    queue_waiting    TEXT,                       -- what pending messages wait for
    last_read        TEXT,
    last_activity_at INTEGER
) WITHOUT ROWID;

CREATE TABLE launches (
    id           TEXT PRIMARY KEY,
    agent        TEXT NOT NULL,
    token_hash   TEXT NOT NULL UNIQUE,
    tmux_session TEXT NOT NULL,
    begun_at     INTEGER NOT NULL,
    ended_at     INTEGER
) WITHOUT ROWID;

CREATE TABLE messages (
    id            TEXT NOT NULL UNIQUE,          -- UUIDv7 text; its order is the thread's order
    agent         TEXT NOT NULL,
    direction     TEXT NOT NULL,
    kind          TEXT NOT NULL,
    text          TEXT NOT NULL,
    sender        TEXT,
    transcript    TEXT,
    reply_to      TEXT,
    task          TEXT,
    run_id        TEXT,
    state         TEXT NOT NULL,
    ts            INTEGER NOT NULL,
    client_msg_id TEXT,
    dedupe        TEXT,                          -- idempotency key with a prefix for its kind
    failed_reason TEXT
);
CREATE INDEX messages_thread ON messages (agent, id);
CREATE UNIQUE INDEX messages_dedupe ON messages (agent, dedupe) WHERE dedupe IS NOT NULL;
CREATE INDEX messages_unread ON messages (agent, id) WHERE direction = 'out' AND kind <> 'system';

CREATE TABLE attachments (
    id         TEXT PRIMARY KEY,
    message_id TEXT NOT NULL,
    position   INTEGER NOT NULL,
    filename   TEXT NOT NULL,
    mime       TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    path       TEXT NOT NULL,
    available  INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE INDEX attachments_message ON attachments (message_id, position);

-- One row for each inbound message.
CREATE TABLE deliveries (
    message_id    TEXT PRIMARY KEY,
    agent         TEXT NOT NULL,
    phase         TEXT NOT NULL,                 -- queued, handed, done
    attempts      INTEGER NOT NULL DEFAULT 0,
    prompt        TEXT NOT NULL,
    bytes         INTEGER NOT NULL,              -- of the prompt, so that the queue is weighed by its index
    handed_prompt TEXT,
    launch        TEXT,
    route         TEXT,
    handed_at     INTEGER,
    done_at       INTEGER,
    retry_key     TEXT,
    turn          TEXT                           -- unbound: delivered, but its turn is not known yet
) WITHOUT ROWID;
CREATE INDEX deliveries_open ON deliveries (agent, message_id, bytes) WHERE phase <> 'done';
CREATE INDEX deliveries_unbound ON deliveries (agent, message_id) WHERE turn = 'unbound';

CREATE TABLE turns (
    agent      TEXT NOT NULL,
    prompt_id  TEXT NOT NULL,
    message_id TEXT,                             -- the message that started it, when one did
    state      TEXT NOT NULL,                    -- running, completed, failed, interrupted
    posted     INTEGER NOT NULL DEFAULT 0,       -- the agent posted by itself during this turn
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    answer     TEXT,                             -- kept only while a message without a turn may claim it
    reply_id   TEXT,
    PRIMARY KEY (agent, prompt_id)
) WITHOUT ROWID;
CREATE INDEX turns_running ON turns (agent) WHERE state = 'running';

CREATE TABLE hook_keys (
    key TEXT PRIMARY KEY,
    at  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE events (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    at   INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
);
