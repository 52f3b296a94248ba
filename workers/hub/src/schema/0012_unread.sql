-- Step 12: how many messages of a thread are unread, kept with its agent: counting them took longer the
-- longer nobody had read.

ALTER TABLE agents ADD COLUMN unread INTEGER NOT NULL DEFAULT 0;
UPDATE agents SET unread = (
    SELECT count(*) FROM messages m WHERE m.agent = agents.name AND m.direction = 'out' AND m.kind <> 'system'
    AND m.id > coalesce(agents.last_read, '')
);
