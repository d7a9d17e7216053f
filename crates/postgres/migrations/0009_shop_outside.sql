-- The sides that were called over HTTP for the last try: 1 pay, 2 stock. What they took is in their own books.
ALTER TABLE orders ADD COLUMN called smallint NOT NULL DEFAULT 0;

-- Ends of checkouts that the webhook is still to be told of: written with the end itself, gone when it was told or given up.
-- Whoever tells one moves its due_date past the time that an attempt may take; if that node dies, it is due for the others.
CREATE TABLE checkout_outcome (
    checkout_outcome_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id text COLLATE "C" NOT NULL,
    tr_num bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('paid', 'not_paid')),
    why_failed text,                          -- pay, stock, both, cancelled, deadline: of one that is not paid
    ended_at timestamptz NOT NULL,
    attempts int NOT NULL DEFAULT 0,          -- that failed
    due_date timestamptz NOT NULL
) WITH (fillfactor = 60);
CREATE INDEX checkout_outcome_due ON checkout_outcome (due_date, checkout_outcome_id);
