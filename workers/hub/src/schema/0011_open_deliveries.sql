-- Step 11: an index that answers by itself how much waits for an agent and what is first. Without the phase
-- in it, each open delivery was looked up in its table at every message that was accepted.

DROP INDEX deliveries_open;
CREATE INDEX deliveries_open ON deliveries (agent, message_id, phase, bytes) WHERE phase <> 'done';
