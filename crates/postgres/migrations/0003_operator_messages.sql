-- What the operator asked for on the topic position, so that the same message, lying there twice, is decided once. A limit or
-- a flag has no id of its own that would tell. Rows go after a while.
CREATE TABLE operator_message (
    digest bytea PRIMARY KEY,                 -- of the message with its trace id: no two requests have the same
    decided_date timestamptz NOT NULL
);
CREATE INDEX operator_message_decided ON operator_message (decided_date);
