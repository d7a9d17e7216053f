//! Does the shop still add up? Each question is asked of the whole tables, and finds nothing where all is well, at any time.

use postgres::Transaction;

use crate::Error;
use crate::verify::{Question, ask_all};

/// What the payment side took and has not given back.
macro_rules! paid {
    () => {
        "(SELECT f.order_id, f.tr_num, f.user_id, f.amnt FROM pay_transaction f
          LEFT JOIN pay_transaction r ON r.order_id = f.order_id AND r.tr_num = f.tr_num AND r.is_rollback
          WHERE NOT f.is_rollback AND f.outcome = 'taken' AND r.order_id IS NULL)"
    };
}

/// What the stock side took and has not given back.
macro_rules! stocked {
    () => {
        "(SELECT f.order_id, f.tr_num, f.items FROM stock_transaction f
          LEFT JOIN stock_transaction r ON r.order_id = f.order_id AND r.tr_num = f.tr_num AND r.is_rollback
          WHERE NOT f.is_rollback AND f.outcome = 'taken' AND r.order_id IS NULL)"
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

const QUESTIONS: [Question; 8] = [
    (
        "users",
        "has another credit than what was put in less what checkouts took",
        concat!(
            "SELECT u.user_id FROM users u LEFT JOIN
                 (SELECT user_id, sum(amnt) AS taken FROM ",
            paid!(),
            " AS p GROUP BY user_id) t USING (user_id)
             WHERE u.credit <> u.funded - coalesce(t.taken, 0)"
        ),
    ),
    (
        "items",
        "has another stock than what was put in less what checkouts took",
        concat!(
            "SELECT i.item_id FROM items i LEFT JOIN
                 (SELECT line ->> 'id' AS item_id, sum((line ->> 'amnt')::numeric) AS taken FROM ",
            stocked!(),
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
            paid!(),
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
            stocked!(),
            " s ON s.order_id = o.order_id AND s.tr_num = o.tr_num
             WHERE o.state = 'paid' AND s.order_id IS NULL AND ",
            inside!("stock", "2")
        ),
    ),
    ("pay_transaction", "took credit for an order that is neither paid nor open", stray!(paid!())),
    ("stock_transaction", "took stock for an order that is neither paid nor open", stray!(stocked!())),
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
];

/// Tells what does not add up: table, and what. Returns how many orders there are.
pub(crate) fn verify_shop(
    tx: &mut Transaction<'_>,
    fault: impl FnMut(&'static str, String),
) -> Result<u64, Error> {
    ask_all(tx, &QUESTIONS, fault)?;
    let orders: i64 = tx.query_one("SELECT count(*) FROM orders", &[])?.get(0);
    crate::guard::unsigned("orders", orders)
}
