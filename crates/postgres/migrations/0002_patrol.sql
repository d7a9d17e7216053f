-- Transfers that stand half-way between two hops for long, as a patrol found them. Few, or something is wrong.
CREATE TABLE stalled_transfer (
    transfer_no bigint PRIMARY KEY,
    transfer_state_id smallint NOT NULL,
    since_date timestamptz NOT NULL
);

-- How far the history was looked through for them: one row.
CREATE TABLE patrol (
    patrol_id smallint PRIMARY KEY,
    looked_until timestamptz NOT NULL
);

-- The history grows at its end, so a few bytes per hundred pages find the rows of a minute, and no write becomes dearer.
CREATE INDEX transfer_state_change_created ON transfer_state_change USING brin (created_date)
    WITH (autosummarize = on);

-- What stands half-way now is looked at once here; what enters such a state later is met by the patrol.
INSERT INTO stalled_transfer SELECT transfer_no, current_state, changed_date FROM transfer
    WHERE current_state IN (1, 4, 6, 9) ORDER BY changed_date LIMIT 1000;
INSERT INTO patrol VALUES (1, hub_clock());
