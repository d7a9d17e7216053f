-- Tables that change all the time are analyzed all the time, and each time 300 rows were read and sorted for every step of the
-- longest histogram: lists of ids and texts of events besides, of which no plan asks anything. All plans of the nodes go by
-- keys, so a short histogram is as good.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT c.relname, a.attname, t.typcategory = 'A' OR t.typname IN ('json', 'bytea') OR a.attname IN ('event', 'body')
            AND t.typname = 'text' AS is_large
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relnamespace = current_schema::regnamespace AND c.relname IN ('token', 'token_lock', 'token_selection',
            'token_change', 'orders', 'pay_transaction', 'stock_transaction', 'idempotency_key', 'outbox', 'segment', 'audit')
            AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
    LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET STATISTICS %s', found.relname, found.attname,
            CASE WHEN found.is_large THEN 0 ELSE 10 END);
    END LOOP;
END $$;
