-- A message whose turn is over without an answer: its prompt may have been refused after we were told of
-- it, which the transcript shows. `deliveries.turn` is 'doubtful' until somebody has looked.
CREATE INDEX deliveries_doubtful ON deliveries (agent, message_id) WHERE turn = 'doubtful';
