-- Tries whose tokens others hold: when the payment side is asked once more. A row goes when it is.
CREATE TABLE pay_again (
    order_id text COLLATE "C" NOT NULL,
    tr_num bigint NOT NULL,
    shard smallint NOT NULL,                  -- of the scan for deadlines, which asks
    again_at timestamptz NOT NULL,
    PRIMARY KEY (order_id, tr_num)
);
CREATE INDEX pay_again_due ON pay_again (shard, again_at);
