-- A change is written once, read by every node and soon removed: it is neither parsed nor compressed on the way.
ALTER TABLE token_change ALTER COLUMN event TYPE text;
ALTER TABLE token_change SET (toast_tuple_target = 8160);

-- A spend keeps what it has produced. What it has consumed stands in token_ids; only older rows have it twice.
COMMENT ON COLUMN token_selection.event IS 'the spend, as it was told, without what it has consumed: that is token_ids';
