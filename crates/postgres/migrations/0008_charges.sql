-- Checkouts that charge accounts in place of the users' credit.

-- What new tries charge: the one row that all nodes read. Without it they charge credit.
CREATE TABLE shop_charging (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    kind text NOT NULL CHECK (kind IN ('credit', 'transfers', 'tokens')),
    payee_id int,                             -- transfers: the participant that is paid
    wallet text,                              -- tokens: the wallet that is paid into
    currency_id text,
    unit bigint,                              -- what one of the shop's numbers is worth: ten-thousandths, or whole tokens
    secret bytea NOT NULL,                    -- ids, fulfilments and names of locks follow from it
    changed_date timestamptz NOT NULL,
    CHECK ((payee_id IS NOT NULL) = (kind = 'transfers')),
    CHECK ((wallet IS NOT NULL) = (kind = 'tokens')),
    CHECK ((currency_id IS NOT NULL AND unit > 0) = (kind <> 'credit'))
);

-- What was reserved for a try that took something else than credit. A try keeps it, whatever is charged afterwards.
CREATE TABLE checkout_charge (
    order_id text COLLATE "C" NOT NULL,
    tr_num bigint NOT NULL,
    amnt bigint NOT NULL CHECK (amnt > 0),
    charge_id uuid NOT NULL UNIQUE,           -- the transfer, or in whose name tokens are locked
    fulfilment bytea,                         -- of the transfer; null: tokens
    PRIMARY KEY (order_id, tr_num)
);
