-- The tables of the cluster, named as in the systems that Holdfast replaces. Amounts have four decimal places.
-- Numbers inside (transfer_no, participant_currency_id) are dense integers; the UUID of a transfer has one index.

-- The one clock of the cluster.
CREATE FUNCTION hub_clock() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT date_trunc('milliseconds', clock_timestamp()) $$;

-- Numbers that are fixed for life, such as counts of partitions.
CREATE TABLE fixed_setting (
    name text PRIMARY KEY,
    value bigint NOT NULL
);

-- Guards. Whoever works on a partition or shard holds its row locked; the epoch tells the owner from a zombie.
CREATE TABLE segment (
    segment_id int GENERATED ALWAYS AS IDENTITY UNIQUE,
    segment_type text NOT NULL,
    table_name text NOT NULL,
    enumeration int NOT NULL,
    value bigint NOT NULL DEFAULT 0,          -- the next offset
    epoch bigint NOT NULL DEFAULT 1,
    outbox_next bigint NOT NULL DEFAULT 0,    -- the next number in the outbox
    outbox_sent bigint NOT NULL DEFAULT 0,    -- all below this number were sent
    audit_next bigint NOT NULL DEFAULT 0,
    audit_hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
    changed_date timestamptz NOT NULL DEFAULT hub_clock(),
    lease_node bigint,                        -- who holds it for a while, where no group of Kafka's gives it out
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (segment_type, table_name, enumeration)
) WITH (fillfactor = 20);

-- The nodes that live, or did so of late, by what they do: shards are shared among those who do the same.
CREATE TABLE node (
    role text NOT NULL,
    node_id bigint NOT NULL,
    seen_until timestamptz NOT NULL,
    PRIMARY KEY (role, node_id)
);

CREATE TABLE participant (
    participant_id int PRIMARY KEY,
    name text NOT NULL,
    is_active boolean NOT NULL,
    created_date timestamptz NOT NULL
);
CREATE UNIQUE INDEX participant_name ON participant (lower(name));

-- An account. The settlement account has the number after its position account.
CREATE TABLE participant_currency (
    participant_currency_id int PRIMARY KEY,
    participant_id int NOT NULL REFERENCES participant,
    currency_id text NOT NULL,
    ledger_account_type text NOT NULL CHECK (ledger_account_type IN ('POSITION', 'SETTLEMENT')),
    is_active boolean NOT NULL,
    created_date timestamptz NOT NULL,
    UNIQUE (participant_id, currency_id, ledger_account_type)
);

CREATE TABLE participant_position (
    participant_currency_id int PRIMARY KEY REFERENCES participant_currency,
    value numeric(38, 4) NOT NULL,
    reserved_value numeric(38, 4) NOT NULL,
    changes bigint NOT NULL DEFAULT 0,        -- how many change rows there are
    changed_date timestamptz NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE participant_limit (
    participant_limit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    participant_currency_id int NOT NULL REFERENCES participant_currency,
    participant_limit_type text NOT NULL DEFAULT 'NET_DEBIT_CAP',
    value numeric(19, 4) NOT NULL,
    threshold_alarm_percentage smallint NOT NULL,
    is_active boolean NOT NULL,
    created_date timestamptz NOT NULL
);
CREATE UNIQUE INDEX participant_limit_active ON participant_limit (participant_currency_id) WHERE is_active;

CREATE TABLE participant_endpoint (
    participant_id int NOT NULL,
    endpoint_type text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (participant_id, endpoint_type)
);

-- Funds in and out.
CREATE TABLE participant_funds (
    transfer_id uuid PRIMARY KEY,
    participant_currency_id int NOT NULL,
    amount numeric(19, 4) NOT NULL,
    funds_state_id smallint NOT NULL,
    changed_date timestamptz NOT NULL
);

-- Append-only: every change of every account, numbered per account without gaps.
CREATE TABLE participant_position_change (
    participant_currency_id int NOT NULL,
    change_no bigint NOT NULL,
    transfer_no bigint,                       -- null: funds, or the initial position
    change numeric(38, 4) NOT NULL,
    value numeric(38, 4) NOT NULL,            -- what the account stood at afterwards
    batch_id bigint NOT NULL,
    created_date timestamptz NOT NULL,
    PRIMARY KEY (participant_currency_id, change_no)
);

CREATE TABLE transfer_state (
    transfer_state_id smallint PRIMARY KEY,
    enumeration text NOT NULL UNIQUE
);
INSERT INTO transfer_state VALUES (1, 'RECEIVED_PREPARE'), (2, 'INVALID'), (3, 'RESERVED'), (4, 'RECEIVED_FULFIL'),
    (5, 'COMMITTED'), (6, 'RECEIVED_ERROR'), (7, 'ABORTED_ERROR'), (8, 'ABORTED_REJECTED'), (9, 'RESERVED_TIMEOUT'),
    (10, 'EXPIRED_PREPARED'), (11, 'EXPIRED_RESERVED');

-- Whoever needs numbers for new transfers takes a block of them.
CREATE SEQUENCE transfer_block;

CREATE TABLE transfer (
    transfer_no bigint PRIMARY KEY,
    transfer_id uuid NOT NULL UNIQUE,
    payer_id bigint NOT NULL,                 -- an INVALID transfer may name anybody
    payee_id bigint NOT NULL,
    payer_account int,                        -- null: INVALID
    payee_account int,
    currency_id text NOT NULL,
    amount numeric(19, 4) NOT NULL,
    expiration_date timestamptz NOT NULL,
    ilp_condition bytea NOT NULL,
    hash bytea NOT NULL,                      -- tells a repeated prepare from a modified one
    source_offset bigint NOT NULL,
    prepared_date timestamptz NOT NULL,
    current_state smallint NOT NULL,
    error_code int,
    error_reason smallint,
    changed_date timestamptz NOT NULL,
    reserved_value numeric(38, 4),            -- the payer's position after the reservation
    final_value numeric(38, 4),               -- the position that the last step changed, after it
    completion_kind smallint,                 -- the fulfil or abort that was accepted
    completion_digest bytea
) WITH (fillfactor = 50);

-- Append-only. No state is entered twice.
CREATE TABLE transfer_state_change (
    transfer_state_change_id bigint GENERATED ALWAYS AS IDENTITY,
    transfer_no bigint NOT NULL,
    transfer_state_id smallint NOT NULL,
    error_code int,
    error_reason smallint,
    batch_id bigint NOT NULL,
    created_date timestamptz NOT NULL,
    PRIMARY KEY (transfer_no, transfer_state_id)
);

-- Bytes that are handed on unread: of the prepare (part 0), of the fulfil or abort (part 1).
CREATE TABLE transfer_opaque (
    transfer_no bigint NOT NULL,
    part smallint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (transfer_no, part)
);

-- One row per hold that can still run out: from RECEIVED_PREPARE until RESERVED is left.
CREATE TABLE transfer_timeout (
    transfer_no bigint PRIMARY KEY,
    shard smallint NOT NULL,
    expiration_date timestamptz NOT NULL
);
CREATE INDEX transfer_timeout_due ON transfer_timeout (shard, expiration_date);

-- What is to be sent, numbered per source while its guard is locked.
CREATE TABLE outbox (
    segment_id int NOT NULL,
    outbox_no bigint NOT NULL,
    topic text NOT NULL,
    key text NOT NULL,
    body text NOT NULL,                       -- the very JSON that is sent
    PRIMARY KEY (segment_id, outbox_no)
);

CREATE TABLE dead_letter (
    dead_letter_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    segment_id int NOT NULL,
    source_offset bigint NOT NULL,
    trace text NOT NULL,
    reason text NOT NULL,
    body bytea NOT NULL,
    created_date timestamptz NOT NULL,
    UNIQUE (segment_id, source_offset)
);

-- Who is to be called with what, from the notification until it is delivered. Given up, it stays as a dead letter.
CREATE TABLE callback (
    callback_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard smallint NOT NULL,                  -- by participant; whoever holds it delivers
    participant_id int NOT NULL,
    transfer_id uuid,                         -- null: an alarm
    message_type text NOT NULL,
    transfer_state_id smallint,               -- of put and patch
    error_code int,                           -- of error
    error_reason smallint,
    participant_currency_id int,              -- of an alarm, with the next two
    value numeric(38, 4),
    net_debit_cap numeric(19, 4),
    trace uuid NOT NULL,
    answers_prepare boolean NOT NULL,         -- the headers of the prepare tell how it is to be said
    decided_date timestamptz NOT NULL,
    is_waiting boolean NOT NULL DEFAULT true,
    next_try timestamptz NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    url text,                                 -- of the last attempt, with the next one
    last_error text,
    dead_date timestamptz,                    -- given up; waiting all the same: it is tried again
    -- A notification that comes again, while this one waits, makes no second call.
    UNIQUE (transfer_id, participant_id, trace, message_type)
);
CREATE INDEX callback_due ON callback (shard, participant_id, next_try, callback_id) WHERE is_waiting;
CREATE INDEX callback_dead ON callback (callback_id) WHERE dead_date IS NOT NULL;
CREATE INDEX callback_dead_of ON callback (participant_id, callback_id) WHERE dead_date IS NOT NULL;

-- One record per batch, chained per source. batch_id stands in the rows that the batch appended.
CREATE SEQUENCE batch_id;
CREATE TABLE audit (
    segment_id int NOT NULL,
    audit_no bigint NOT NULL,
    batch_id bigint NOT NULL UNIQUE,
    epoch bigint NOT NULL,
    first_offset bigint NOT NULL,
    next_offset bigint NOT NULL,
    state_changes int NOT NULL,
    position_changes int NOT NULL,
    effects_hash bytea NOT NULL,
    hash bytea NOT NULL,
    created_date timestamptz NOT NULL,
    PRIMARY KEY (segment_id, audit_no)
);

-- For people.
CREATE VIEW transfer_history AS
    SELECT t.transfer_id, s.enumeration AS state, c.error_code, c.created_date
    FROM transfer_state_change c JOIN transfer t USING (transfer_no) JOIN transfer_state s USING (transfer_state_id)
    ORDER BY c.transfer_state_change_id;
