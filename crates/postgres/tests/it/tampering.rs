//! `verify` notices what somebody changed by hand.

use holdfast_postgres::Store;
use holdfast_postgres::tokens::SpendVerdict;
use holdfast_tokens::Token;

use crate::token_world::{lock, spend};
use crate::world::*;

#[test]
fn every_change_by_hand_is_found() {
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    node.ask(&[prepare(1, 1, 2, 5, FAR), prepare(2, 1, 2, 6, FAR)]);
    node.ask(&[fulfil(1, 2)]);
    drop(node);
    let verified = world.store().verify().unwrap();
    assert_eq!(verified.findings, []);
    assert_eq!((verified.accounts, verified.position_changes, verified.state_changes), (4, 4, 6));
    for (table, by_hand) in [
        (
            "participant_position",
            "UPDATE participant_position SET value = value + 1 WHERE participant_currency_id = 1",
        ),
        (
            "participant_position_change",
            "UPDATE participant_position_change SET value = value + 1 WHERE change_no = 0 AND participant_currency_id = 1",
        ),
        (
            "participant_position_change",
            "DELETE FROM participant_position_change WHERE change_no = 0 AND participant_currency_id = 1",
        ),
        (
            "participant_position",
            "UPDATE participant_position_change SET change = change - 1, value = value - 1 WHERE participant_currency_id = 3",
        ),
        ("audit", "UPDATE transfer_state_change SET error_code = 3303 WHERE transfer_state_id = 5"),
        ("audit", "DELETE FROM audit WHERE audit_no = 1"),
        ("audit", "UPDATE audit SET created_date = created_date + interval '1 ms' WHERE audit_no = 1"),
        ("segment", "UPDATE segment SET value = value - 1 WHERE table_name = 'transfers'"),
        ("transfer_timeout", "DELETE FROM transfer_timeout"),
        (
            "transfer_timeout",
            "INSERT INTO transfer_timeout SELECT transfer_no, 0, now() FROM transfer WHERE current_state = 5",
        ),
        ("transfer", "UPDATE transfer SET current_state = 7 WHERE current_state = 5"),
        ("participant_position", "UPDATE transfer SET amount = amount + 1 WHERE current_state = 3"),
        ("participant_funds", "DELETE FROM participant_funds"),
    ] {
        // The change is tried on a copy, since a verify has a connection of its own.
        world.copy().notices(by_hand, table);
    }
}

/// A token that is held, one that was spent, and what came of it.
fn some_tokens(store: &mut Store) {
    let token = |id: &str| Token::new(id, "alice", "EUR", 1);
    store.issue_tokens(&[token("held"), token("gone")], None).unwrap().unwrap();
    lock(store, "holder", &[token("held")]);
    let fence = lock(store, "payer", &[token("gone")]);
    let spend = spend(fence, "payer", &[token("gone")], token("new"));
    assert_eq!(store.spend_tokens(&[spend], None).unwrap(), [Some(SpendVerdict::Spent)]);
}

#[test]
fn every_token_changed_by_hand_is_found() {
    let Some(world) = World::new() else { return };
    some_tokens(&mut world.store());
    let verified = world.store().verify().unwrap();
    assert_eq!((verified.findings, verified.tokens), (vec![], 3));
    for (table, by_hand) in [
        ("token_lock", "DELETE FROM token WHERE token_id = 'new'"),
        ("token", "DELETE FROM token_lock WHERE token_id = 'new'"),
        ("token_selection", "UPDATE token_lock SET spender_tx_id = 'thief' WHERE token_id = 'held'"),
        ("token_lock", "UPDATE token_selection SET state = 'RELEASED' WHERE spender_tx_id = 'holder'"),
        (
            "token_selection",
            "UPDATE token_lock SET spent = false, spender_tx_id = NULL WHERE token_id = 'gone'",
        ),
        (
            "token_selection",
            "UPDATE token_selection SET state = 'SPENT', token_ids = '{gone}' WHERE state = 'HELD'",
        ),
    ] {
        world.copy().notices(by_hand, table);
    }
}
