//! Does the shop still add up? Each question is asked of the whole tables, and finds nothing where all is well, at any time.

use crate::verify::Question;

/// What a side took and has not given back.
macro_rules! taken {
    ($table:literal) => {
        concat!(
            "(SELECT f.* FROM ",
            $table,
            " f LEFT JOIN ",
            $table,
            " r ON r.order_id = f.order_id AND r.tr_num = f.tr_num AND r.is_rollback
          WHERE NOT f.is_rollback AND f.outcome = 'taken' AND r.order_id IS NULL)"
        )
    };
}

/// Tries with a charge of their own for which that is so: what the payment side has done with it (`taken`, `undone`), whether the
/// order is paid by it, and where its transfer or its tokens stand. What tokens were is forgotten some time after they were spent.
macro_rules! charges {
    ($wrong:literal) => {
        concat!(
            "SELECT try FROM
         (SELECT c.order_id || ' try ' || c.tr_num AS try, c.fulfilment IS NULL AS by_tokens,
              CASE WHEN r.order_id IS NOT NULL THEN 'undone' ELSE f.outcome END AS did,
              coalesce(o.state = 'paid' AND o.tr_num = c.tr_num, false) AS paid, c.tr_num > o.life AS of_order,
              t.current_state, t.expiration_date, s.state AS tokens, s.payee_wallet
          FROM checkout_charge c
          LEFT JOIN pay_transaction f ON f.order_id = c.order_id AND f.tr_num = c.tr_num AND NOT f.is_rollback
          LEFT JOIN pay_transaction r ON r.order_id = c.order_id AND r.tr_num = c.tr_num AND r.is_rollback
          LEFT JOIN orders o ON o.order_id = c.order_id
          LEFT JOIN transfer t ON t.transfer_id = c.charge_id
          LEFT JOIN token_selection s ON s.spender_tx_id = c.charge_id::text) c WHERE ",
            $wrong
        )
    };
}

/// Whether a side was inside for an order: one that is outside keeps its rows elsewhere, be it that it was never inside, or that it
/// was called for the try.
macro_rules! inside {
    ($topic:literal, $bit:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM segment WHERE segment_type = 'consumer' AND table_name = '",
            $topic,
            "' AND value > 0) AND (o.called & ",
            $bit,
            ") = 0"
        )
    };
}

/// Takings of orders that are neither paid by that try nor at it. Tries of an order that an init has replaced stay as they
/// were.
macro_rules! stray {
    ($taken:expr) => {
        concat!(
            "SELECT t.order_id FROM ",
            $taken,
            " t LEFT JOIN orders o ON o.order_id = t.order_id
             WHERE o.order_id IS NULL
                 OR (t.tr_num > o.life AND (o.state = 'not_paid' OR o.tr_num IS DISTINCT FROM t.tr_num))"
        )
    };
}

pub(crate) const SHOP_QUESTIONS: [Question; 12] = [
    (
        "users",
        "has another credit than what was put in less what checkouts took",
        concat!(
            "SELECT u.user_id FROM users u LEFT JOIN
                 (SELECT user_id, sum(amnt) AS taken FROM ",
            taken!("pay_transaction"),
            " AS p WHERE NOT EXISTS (SELECT 1 FROM checkout_charge c
                  WHERE c.order_id = p.order_id AND c.tr_num = p.tr_num) GROUP BY user_id) t USING (user_id)
             WHERE u.credit <> u.funded - coalesce(t.taken, 0)"
        ),
    ),
    (
        "items",
        "has another stock than what was put in less what checkouts took",
        concat!(
            "SELECT i.item_id FROM items i LEFT JOIN
                 (SELECT line ->> 'id' AS item_id, sum((line ->> 'amnt')::numeric) AS taken FROM ",
            taken!("stock_transaction"),
            " AS s CROSS JOIN json_array_elements(s.items) AS line GROUP BY 1) t
                 ON t.item_id COLLATE \"C\" = i.item_id
             WHERE i.stock <> i.supplied - coalesce(t.taken, 0)"
        ),
    ),
    (
        "orders",
        "is paid, and the payment side has not taken its amount",
        concat!(
            "SELECT o.order_id FROM orders o LEFT JOIN ",
            taken!("pay_transaction"),
            " p ON p.order_id = o.order_id AND p.tr_num = o.tr_num AND p.user_id = o.user_id AND p.amnt = o.amount
             WHERE o.state = 'paid' AND p.order_id IS NULL AND ",
            inside!("pay", "1")
        ),
    ),
    (
        "orders",
        "is paid, and the stock side has not taken its items",
        concat!(
            "SELECT o.order_id FROM orders o LEFT JOIN ",
            taken!("stock_transaction"),
            " s ON s.order_id = o.order_id AND s.tr_num = o.tr_num
             WHERE o.state = 'paid' AND s.order_id IS NULL AND ",
            inside!("stock", "2")
        ),
    ),
    ("pay_transaction", "took credit for an order that is neither paid nor open", stray!(taken!("pay_transaction"))),
    ("stock_transaction", "took stock for an order that is neither paid nor open", stray!(taken!("stock_transaction"))),
    (
        "orders",
        "is open, and has no deadline or is in no shard: nobody would ever end it",
        "SELECT order_id FROM orders
         WHERE state IN ('pending', 'cancelling') AND (deadline IS NULL OR shard IS NULL OR started_at IS NULL)",
    ),
    (
        "idempotency_key",
        "waits for an answer, and its order has nothing open",
        "SELECT k.idempotency_key FROM idempotency_key k LEFT JOIN orders o ON o.order_id = k.order_id
         WHERE k.answer IS NULL AND (o.order_id IS NULL OR o.state NOT IN ('pending', 'cancelling'))",
    ),
    (
        "checkout_charge",
        "was reserved for a try for which the payment side took nothing",
        charges!("did IS DISTINCT FROM 'taken' AND did IS DISTINCT FROM 'undone'"),
    ),
    (
        "checkout_charge",
        "has paid an order, and its transfer is not committed, or its tokens are not spent",
        charges!(
            "paid AND of_order AND did = 'taken' AND CASE WHEN by_tokens THEN tokens <> 'SPENT'
                 ELSE current_state IS DISTINCT FROM 5 END"
        ),
    ),
    (
        "checkout_charge",
        "has not paid an order yet, and its transfer is committed, or its tokens are not held",
        charges!(
            "NOT paid AND of_order AND did = 'taken' AND CASE WHEN by_tokens
                 THEN tokens IS DISTINCT FROM 'HELD' OR payee_wallet IS NULL
                 ELSE current_state IS NULL OR current_state = 5 END"
        ),
    ),
    (
        "checkout_charge",
        "was given back, and its transfer is reserved or committed, or its tokens are held or spent",
        // One that ran out is ended by the scan, whatever the checkout does.
        charges!(
            "did = 'undone' AND CASE WHEN by_tokens
                 THEN tokens = 'SPENT' OR (tokens = 'HELD' AND payee_wallet IS NOT NULL)
                 ELSE current_state IS NULL OR current_state = 5 OR (current_state = 3 AND expiration_date > hub_clock())
                 END"
        ),
    ),
];
