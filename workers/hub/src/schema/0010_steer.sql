-- Step 10: messages for the turn that runs.

-- Whether the message is for the turn that runs, and whether it was handed to it: such a hand-over is not
-- one of the queue's.
ALTER TABLE deliveries ADD COLUMN steer INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN steered INTEGER NOT NULL DEFAULT 0;
