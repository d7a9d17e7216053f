//! Do the tokens still add up? Each question is asked of the whole tables.

use crate::verify::Question;

pub(crate) const TOKEN_QUESTIONS: [Question; 11] = [
    (
        "token",
        "has no lock row, so that nobody can select it",
        "SELECT t.token_id FROM token t LEFT JOIN token_lock l USING (token_id) WHERE l.token_id IS NULL",
    ),
    (
        "token_lock",
        "is not spent and has no token: its value is gone",
        "SELECT l.token_id FROM token_lock l LEFT JOIN token t USING (token_id)
         WHERE NOT l.spent AND t.token_id IS NULL",
    ),
    (
        "token_selection",
        "is live and does not hold all of its tokens",
        "SELECT DISTINCT s.spender_tx_id FROM token_selection s CROSS JOIN unnest(s.token_ids) AS id
         LEFT JOIN token_lock l ON l.token_id = id AND l.spender_tx_id = s.spender_tx_id AND l.fence = s.fence
             AND NOT l.spent
         WHERE s.state = 'HELD' AND s.expires_at > hub_clock() AND l.token_id IS NULL",
    ),
    (
        "token_lock",
        "is held by nobody who has selected it",
        "SELECT l.token_id FROM token_lock l LEFT JOIN token_selection s
             ON s.spender_tx_id = l.spender_tx_id AND s.fence = l.fence AND s.state = 'HELD'
         WHERE NOT l.spent AND l.expires_at > hub_clock() AND s.spender_tx_id IS NULL",
    ),
    (
        "token_selection",
        "has spent a token that is not spent",
        "SELECT DISTINCT s.spender_tx_id FROM token_selection s CROSS JOIN unnest(s.token_ids) AS id
         JOIN token_lock l ON l.token_id = id WHERE s.state = 'SPENT' AND NOT l.spent",
    ),
    (
        "token_selection",
        "is a token that was spent more than once",
        "SELECT id FROM token_selection s CROSS JOIN unnest(s.token_ids) AS id WHERE s.state = 'SPENT'
         GROUP BY id HAVING count(*) > 1",
    ),
    (
        "token_selection",
        "holds tokens for a transfer that is not reserved, or its amount is another, and for no checkout either",
        "SELECT s.spender_tx_id FROM token_selection s LEFT JOIN transfer t
             ON t.transfer_id::text = s.spender_tx_id AND t.current_state = 3 AND t.payer_account IS NULL
                 AND t.amount = s.amount
         LEFT JOIN checkout_charge c ON c.charge_id::text = s.spender_tx_id AND c.fulfilment IS NULL
         WHERE s.state = 'HELD' AND s.payee_wallet IS NOT NULL AND t.transfer_no IS NULL AND c.order_id IS NULL",
    ),
    (
        "token",
        "has another quantity, wallet or currency than the spend that made it says",
        "SELECT t.token_id FROM token_selection s CROSS JOIN json_array_elements(s.event->'body'->'produced') AS p
         JOIN token t ON t.token_id = p->>'id'
         WHERE s.state = 'SPENT' AND (t.quantity <> (p->>'quantity')::numeric OR t.wallet <> p->>'wallet'
             OR t.currency <> p->>'currency')",
    ),
    (
        "transfer",
        "is committed, and the tokens that paid for it are not spent",
        "SELECT t.transfer_id::text FROM transfer t LEFT JOIN token_selection s
             ON s.spender_tx_id = t.transfer_id::text AND s.state = 'SPENT' AND s.payee_wallet IS NOT NULL
         WHERE t.current_state = 5 AND t.payer_account IS NULL AND s.spender_tx_id IS NULL
             AND t.changed_date > hub_clock() - interval '6 days'",
    ),
    (
        "transfer",
        "is reserved, paid for by tokens, and holds none",
        "SELECT t.transfer_id::text FROM transfer t LEFT JOIN token_selection s
             ON s.spender_tx_id = t.transfer_id::text AND s.state = 'HELD' AND s.payee_wallet IS NOT NULL
         WHERE t.current_state = 3 AND t.payer_account IS NULL AND s.spender_tx_id IS NULL",
    ),
    (
        "token_lock",
        "was consumed by another ledger, and neither does a transfer or checkout hold it nor is it spent",
        "SELECT l.token_id FROM token_lock l LEFT JOIN token_selection s
             ON s.spender_tx_id = l.spender_tx_id AND s.fence = l.fence AND s.state = 'HELD'
                 AND s.payee_wallet IS NOT NULL
         WHERE l.gone_outside AND NOT l.spent AND s.spender_tx_id IS NULL",
    ),
];
