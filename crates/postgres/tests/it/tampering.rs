//! `verify` notices what somebody changed by hand.

use crate::world::*;

#[test]
fn every_change_by_hand_is_found() {
    let Some(world) = World::new() else { return };
    let mut cluster = Cluster::new(&world, 1);
    cluster.participant("payer", 1_000, 1_000);
    cluster.participant("payee", 0, 10);
    cluster.ask(&[prepare(1, 1, 2, 5, FAR), prepare(2, 1, 2, 6, FAR)]);
    cluster.ask(&[fulfil(1, 2)]);
    drop(cluster);
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
        let copy = world.copy();
        copy.sql().batch_execute(by_hand).unwrap();
        let found = copy.store().verify().unwrap();
        assert!(found.findings.iter().any(|finding| finding.table == table), "{by_hand}: {found:?}");
    }
}
