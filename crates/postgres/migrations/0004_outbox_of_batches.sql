-- The outbox keeps one row per batch, not one per message: relays send from memory what a handler has just committed, and
-- read this only after a failure or a change of hands. A line per message: topic, key and the very JSON that is sent, with
-- tabs between them. JSON has neither tabs nor ends of lines in it.
ALTER TABLE outbox RENAME TO outbox_of_messages;
ALTER INDEX outbox_pkey RENAME TO outbox_of_messages_pkey;
CREATE TABLE outbox (
    segment_id int NOT NULL,
    outbox_no bigint NOT NULL,                -- the number of its first message
    messages int NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (segment_id, outbox_no)
);
-- A batch's messages are much alike. Servers that were built without lz4 go on with their own way.
DO $$ BEGIN
    EXECUTE 'ALTER TABLE outbox ALTER COLUMN body SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error THEN NULL;
END $$;
INSERT INTO outbox (segment_id, outbox_no, messages, body)
    SELECT segment_id, outbox_no, 1, topic || E'\t' || key || E'\t' || body || E'\n' FROM outbox_of_messages;
DROP TABLE outbox_of_messages;
