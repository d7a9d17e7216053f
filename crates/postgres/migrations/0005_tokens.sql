-- Tokens that all nodes select from. Ids are compared byte by byte, as the nodes do.

-- Every selection has a higher number than all before it.
CREATE SEQUENCE token_fence;

-- Written once, at issue or by the spend that made it, and removed some time after it was spent. Nothing here is locked by a
-- selection, so whoever reads or writes this table beside the nodes is not held up by them.
CREATE TABLE token (
    token_id text COLLATE "C" PRIMARY KEY,
    wallet text COLLATE "C" NOT NULL,
    external_id text COLLATE "C",
    public_key text COLLATE "C",
    token_type text COLLATE "C" NOT NULL,
    currency text COLLATE "C" NOT NULL,
    quantity numeric(20) NOT NULL CHECK (quantity > 0),
    issuer text COLLATE "C",
    notary text COLLATE "C",
    attributes json,
    created_at timestamptz NOT NULL
);
CREATE INDEX token_of_wallet ON token (wallet, token_type, currency, token_id);
CREATE INDEX token_of_external_id ON token (external_id, token_type, currency) WHERE external_id IS NOT NULL;
CREATE INDEX token_of_public_key ON token (public_key, token_type, currency) WHERE public_key IS NOT NULL;

-- One row per token from its issue on, also after its spend, so that a node with a stale picture loses and no token comes
-- back. A lock whose
-- expires_at is over is none. What was consumed before it was ever produced has a row here and no token.
CREATE TABLE token_lock (
    token_id text COLLATE "C" PRIMARY KEY,
    spender_tx_id text COLLATE "C",
    created_at timestamptz,
    expires_at timestamptz,
    fence bigint,
    spent boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- What each spender has selected, or spent. Its wallet is NULL if the tokens are of several. With a payee_wallet a transfer
-- of that id holds them: no lease ends that (expires_at is infinity), and the transfer pays them out to that wallet.
CREATE TABLE token_selection (
    spender_tx_id text COLLATE "C" PRIMARY KEY,
    state text NOT NULL CHECK (state IN ('HELD', 'RELEASED', 'SPENT')),
    fence bigint NOT NULL,
    body uuid NOT NULL,
    amount numeric(20) NOT NULL,
    token_ids text[] COLLATE "C" NOT NULL,
    wallet text COLLATE "C",
    payee_wallet text COLLATE "C",
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    spend_body uuid,
    event json
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX token_selection_held ON token_selection (wallet) WHERE state = 'HELD';
CREATE INDEX token_selection_changed ON token_selection USING brin (changed_at);

-- What happened, for the nodes' caches and for the topic token-events. Read in the order of (xid, change_no); where to
-- begin the next time is noted only below the oldest transaction that still runs, so nothing that commits late is passed over.
CREATE TABLE token_change (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    change_no bigint GENERATED ALWAYS AS IDENTITY,
    event json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT hub_clock(),
    PRIMARY KEY (xid, change_no)
);

-- How far the topic has been written, and up to which change they were removed. One row.
CREATE TABLE token_progress (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    sent_xid xid8 NOT NULL DEFAULT '0',
    sent_no bigint NOT NULL DEFAULT 0,
    removed_xid xid8 NOT NULL DEFAULT '0',
    removed_no bigint NOT NULL DEFAULT 0
);
INSERT INTO token_progress DEFAULT VALUES;

-- Called where two nodes met in a way that only shows after the fact: the statement is undone and tried again.
CREATE FUNCTION token_race() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'another node was first' USING ERRCODE = 'serialization_failure';
END
$$;
