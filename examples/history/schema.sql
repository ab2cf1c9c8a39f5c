CREATE TABLE IF NOT EXISTS message_events (
  event_id text PRIMARY KEY,
  time     timestamptz NOT NULL,
  id       text, -- of the message; null: an event about no message
  event    text NOT NULL,
  sink     text,
  topic    text,
  attempt  int,
  reason   text,
  whole    jsonb NOT NULL
);
CREATE INDEX IF NOT EXISTS message_events_by_id ON message_events (id, time);
