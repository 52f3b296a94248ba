-- Step 9: voice notes that wait for their transcript. Their deliveries have the phase `transcribing`
-- until there is something to hand over.

CREATE TABLE voice_notes (
    message_id TEXT PRIMARY KEY,
    attempts   INTEGER NOT NULL DEFAULT 0,       -- counted up for ever, so that a late end is told apart
    tries      INTEGER NOT NULL DEFAULT 0,       -- since a person last asked for it
    take_key   TEXT,                             -- of the request that has it in hand
    held       INTEGER NOT NULL DEFAULT 1,       -- later messages of the thread wait for it
    held_until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX voice_held ON voice_notes (held_until) WHERE held = 1;
CREATE INDEX deliveries_transcribing ON deliveries (message_id) WHERE phase = 'transcribing';
