-- The shop of a cluster: users with credit, items with stock, orders and their checkouts. Ids are compared byte by byte.

-- credit = funded less what checkouts hold or have taken: what people put in or take out changes both, a checkout the credit.
CREATE TABLE users (
    user_id text COLLATE "C" PRIMARY KEY,
    credit bigint NOT NULL CHECK (credit >= 0),
    funded numeric NOT NULL
) WITH (fillfactor = 60);

-- stock = supplied less what checkouts hold or have taken.
CREATE TABLE items (
    item_id text COLLATE "C" PRIMARY KEY,
    price bigint NOT NULL CHECK (price >= 0),
    stock bigint NOT NULL CHECK (stock >= 0),
    supplied numeric NOT NULL
) WITH (fillfactor = 60);

-- An order, and the try that is open if it is pending or cancelling: then everything from started_at on belongs to that try.
-- A checkout is decided by a compare-and-set on (state, tr_num) under the lock of this row, by whoever comes first.
CREATE TABLE orders (
    order_id text COLLATE "C" PRIMARY KEY,
    user_id text COLLATE "C" NOT NULL,
    items json NOT NULL,                      -- [{"id","amnt"}], as they were added
    amount bigint NOT NULL CHECK (amount >= 0),
    paid boolean NOT NULL GENERATED ALWAYS AS (state = 'paid') STORED,
    state text NOT NULL CHECK (state IN ('not_paid', 'pending', 'paid', 'cancelling')),
    tr_num bigint CHECK (tr_num > 0),         -- the last try; null: never tried
    why_failed text,                          -- pay, stock, both, cancelled, deadline: of the last try, if it failed
    life bigint NOT NULL DEFAULT 0,           -- tries up to this one were of an order that this one took the place of
    started_by uuid,                          -- the trace of the command that began the last try
    started_at timestamptz,
    deadline timestamptz,                     -- it is cancelled after this, if it is not decided by then
    shard smallint,                           -- of the scan for deadlines
    waits_since timestamptz,                  -- for the sides that have not answered
    pay_outcome text,                         -- taken, refused: as far as the order consumer has heard
    stock_outcome text,
    undo_pay boolean,                         -- whether that side was told to give back; null: not decided
    undo_stock boolean,
    pay_undone boolean NOT NULL DEFAULT false,
    stock_undone boolean NOT NULL DEFAULT false,
    idempotency_keys json NOT NULL DEFAULT '[]' -- those that get the answer of the open try
) WITH (fillfactor = 50);
CREATE INDEX orders_due ON orders (shard, deadline) WHERE state = 'pending';
CREATE INDEX orders_open ON orders (started_at, order_id) WHERE state IN ('pending', 'cancelling');

-- What became of each message to the payment side. A repeat gets the same answer from here. The rollback's value is that of
-- the forward row, null if the rollback came first: then nothing was taken, and nothing will be.
CREATE TABLE pay_transaction (
    order_id text COLLATE "C" NOT NULL,
    tr_num bigint NOT NULL,
    is_rollback boolean NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('taken', 'refused', 'undone')),
    user_id text COLLATE "C",
    amnt bigint,
    PRIMARY KEY (order_id, tr_num, is_rollback)
);

-- The same of the stock side.
CREATE TABLE stock_transaction (
    order_id text COLLATE "C" NOT NULL,
    tr_num bigint NOT NULL,
    is_rollback boolean NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('taken', 'refused', 'undone')),
    items json,
    PRIMARY KEY (order_id, tr_num, is_rollback)
);

-- The same key with the same content gets the stored answer, until ends_at.
CREATE TABLE idempotency_key (
    idempotency_key text COLLATE "C" PRIMARY KEY,
    body uuid NOT NULL,                       -- the content of the request
    order_id text COLLATE "C" NOT NULL,
    answer text,                              -- paid, already_paid, failed; null: its checkout is open
    tr_num bigint,
    why_failed text,
    ends_at timestamptz NOT NULL
);
CREATE INDEX idempotency_key_ends ON idempotency_key (ends_at);

-- From where a fresh order consumer reads a partition of outcomes. It never falls, and is also told to the topic.
CREATE TABLE outcome_offset (
    partition int PRIMARY KEY,
    value bigint NOT NULL,
    changed_date timestamptz NOT NULL
);
