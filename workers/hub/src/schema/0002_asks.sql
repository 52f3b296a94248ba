-- Step 2: asks, permission prompts and question cards, and the tool calls that prompts belong to.

CREATE TABLE asks (
    message_id    TEXT PRIMARY KEY,
    agent         TEXT NOT NULL,
    kind          TEXT NOT NULL,                 -- ask, permission, questions
    state         TEXT NOT NULL,                 -- open, answered, expired; as in the message
    opened_ms     INTEGER NOT NULL,              -- when the agent asked, by its own clock
    deadline      INTEGER,
    input         TEXT,                          -- JSON of Input
    permission    TEXT,                          -- JSON of Permission
    answer        TEXT,                          -- JSON of AnswerBody
    answered_by   TEXT,
    answer_key    TEXT,
    closed_reason TEXT,
    waiter        TEXT,                          -- the call that waits for the answer
    late_at       INTEGER,                       -- when the answer goes out as a message, unless collected
    hook_key      TEXT UNIQUE,
    tool_name     TEXT,
    tool_input    TEXT,                          -- verbatim, where the answer must repeat it
    input_hash    TEXT,
    tool_use_id   TEXT,
    subagent      TEXT,
    detached_at   INTEGER                        -- since when no hook waits
) WITHOUT ROWID;
CREATE INDEX asks_open ON asks (agent, message_id) WHERE state = 'open';
CREATE INDEX asks_late ON asks (late_at) WHERE late_at IS NOT NULL;

CREATE TABLE tool_calls (
    agent       TEXT NOT NULL,
    tool_use_id TEXT NOT NULL,
    tool_name   TEXT NOT NULL,
    input_hash  TEXT NOT NULL,
    subagent    TEXT,
    at          INTEGER NOT NULL,
    asked       INTEGER NOT NULL DEFAULT 0,      -- a permission prompt was matched to it
    PRIMARY KEY (agent, tool_use_id)
) WITHOUT ROWID;
