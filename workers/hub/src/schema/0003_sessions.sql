-- Step 3: the sessions of each agent's harness. An agent keeps its thread through all of them.

CREATE TABLE sessions (
    agent           TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    transcript_path TEXT NOT NULL,               -- as the harness named it
    launch          TEXT NOT NULL,
    since           INTEGER NOT NULL,            -- when it became the agent's session, again if resumed
    PRIMARY KEY (agent, session_id, transcript_path)
) WITHOUT ROWID;
CREATE INDEX sessions_newest ON sessions (agent, since);
