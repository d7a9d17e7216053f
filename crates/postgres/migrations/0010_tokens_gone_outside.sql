-- Another ledger has consumed the token while a transfer or checkout holds it. Whatever ends the hold without paying makes it
-- spent in place of free; what was paid out of it nevertheless keeps the mark.
ALTER TABLE token_lock ADD COLUMN gone_outside boolean NOT NULL DEFAULT false;
-- Not over `spent`: a column of any index makes every change of it an entry in all of them.
CREATE INDEX token_lock_gone_outside ON token_lock (token_id) WHERE gone_outside;

-- The live locks of a wallet, and those whose lease has ended, each without a look at the others.
CREATE INDEX token_selection_live ON token_selection (wallet, expires_at) WHERE state = 'HELD';
CREATE INDEX token_selection_ends ON token_selection (expires_at) WHERE state = 'HELD';
DROP INDEX token_selection_held;

-- What is over, the oldest first. Ranges of pages, as it was, tell nothing once new rows lie where old ones were removed.
CREATE INDEX token_selection_over ON token_selection (changed_at) WHERE state <> 'HELD';
DROP INDEX token_selection_changed;

-- A share of a table that only grows is soon too much to wait for.
ALTER TABLE token_lock SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000);
ALTER TABLE token_selection SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);
ALTER TABLE token_change SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);
ALTER TABLE token SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000);

-- Lists of ids are much alike, and every node reads each change. Servers that were built without lz4 go on with their own way.
DO $$ BEGIN
    EXECUTE 'ALTER TABLE token_change ALTER COLUMN event SET COMPRESSION lz4';
    EXECUTE 'ALTER TABLE token_selection ALTER COLUMN token_ids SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error THEN NULL;
END $$;
