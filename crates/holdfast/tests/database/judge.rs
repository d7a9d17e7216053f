//! What must hold when all is quiet again.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::effects::{NotificationKind, Party};
use holdfast_domain::ids::TransferId;
use holdfast_domain::transfers::TransferState;
use holdfast_kafka::Topic;
use holdfast_messages::{Message, Notice, Notification};

use crate::load::Ledger;
use crate::world::World;

pub fn all(world: &World, ledger: &Ledger) {
    world.verify();
    let rows = states(world);
    assert_eq!(rows.len(), ledger.parties.len(), "each transfer is there once, and nothing else");
    answers_are_what_happened(ledger, &rows);
    no_limit_was_broken(world);
    assert_eq!(world.count("SELECT count(*) FROM transfer_timeout"), 0, "every hold has ended");
    let held = "SELECT (coalesce(sum(value), 0) * 10000)::bigint FROM participant_position p
                JOIN participant_currency c USING (participant_currency_id) WHERE c.ledger_account_type = 'POSITION'";
    assert_eq!(world.count(held), 0, "what one owes another has: positions add up to nothing");
    everybody_was_told(world, &rows);
    world.inbox.judge(ledger, &rows);
    let strange = "SELECT count(*) FROM dead_letter WHERE reason NOT LIKE 'not a message%' AND reason NOT LIKE 'version 0%'
                   AND body NOT LIKE '%00000000-0000-0000-0000-0000dead0001%'::bytea";
    assert_eq!(world.count(strange), 0, "dead letters are the poison and nothing else");
    assert!(world.count("SELECT count(*) FROM dead_letter") > 0, "the poison was found");
}

fn states(world: &World) -> BTreeMap<u128, TransferState> {
    let sql = "SELECT transfer_id::text, s.enumeration FROM transfer t
               JOIN transfer_state s ON s.transfer_state_id = t.current_state";
    let rows = world.sql().query(sql, &[]).expect("rows");
    rows.iter()
        .map(|row| {
            let id: TransferId = row.get::<_, String>(0).parse().expect("an id");
            (id.0, TransferState::from_name(row.get(1)).expect("a state"))
        })
        .collect()
}

/// The last answer to a transfer is where it stood then, and it went on from there in a legal way.
fn answers_are_what_happened(ledger: &Ledger, rows: &BTreeMap<u128, TransferState>) {
    use TransferState as S;
    for (id, (state, code)) in &ledger.answers {
        let stands = rows[id];
        let fits = match state {
            Some(S::Committed | S::AbortedError | S::AbortedRejected | S::Invalid | S::ExpiredPrepared) => {
                Some(stands) == *state
            }
            Some(S::Reserved | S::ReceivedFulfil | S::ReceivedError | S::ReceivedPrepare) | None => {
                matches!(stands, S::Committed | S::AbortedError | S::ExpiredReserved | S::ExpiredPrepared)
                    || (state.is_none() && *code != 0)
            }
            Some(S::ReservedTimeout | S::ExpiredReserved) => stands == S::ExpiredReserved,
        };
        assert!(fits, "{} was answered {state:?} {code} and is {stands}", TransferId(*id));
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    rows.values().for_each(|state| *kinds.entry(state.name()).or_default() += 1);
    eprintln!("{kinds:?}");
    let wanted = ["COMMITTED", "ABORTED_ERROR", "ABORTED_REJECTED", "EXPIRED_RESERVED"];
    assert!(wanted.iter().all(|kind| kinds.contains_key(kind)), "of each kind there must be some: {kinds:?}");
}

fn no_limit_was_broken(world: &World) {
    let broken = "SELECT count(*) FROM participant_position_change p JOIN participant_limit l USING (participant_currency_id)
                  WHERE l.is_active AND p.change > 0 AND p.value > l.value";
    assert_eq!(world.count(broken), 0);
}

/// Who must have heard what of a transfer that ended so.
pub fn due(state: TransferState) -> &'static [(NotificationKind, Party)] {
    use NotificationKind as K;
    use TransferState as S;
    match state {
        S::Committed => &[(K::Prepared, Party::Payee), (K::Committed, Party::Payer)],
        S::AbortedError => &[(K::Prepared, Party::Payee), (K::Aborted, Party::Payer)],
        S::AbortedRejected => &[(K::Refused, Party::Payer)],
        S::ExpiredReserved => {
            &[(K::Prepared, Party::Payee), (K::Expired, Party::Payer), (K::Expired, Party::Payee)]
        }
        S::ExpiredPrepared => &[(K::Expired, Party::Payer)],
        _ => &[],
    }
}

fn everybody_was_told(world: &World, rows: &BTreeMap<u128, TransferState>) {
    let mut told: BTreeMap<u128, BTreeSet<(u8, u8)>> = BTreeMap::new();
    for record in world.records(Topic::Notifications) {
        let Ok(notification) = Notification::read(&record.key, &record.value) else { continue };
        let Notice::Transfer(notice) = notification.notice else { continue };
        let state = rows.get(&notice.transfer.0).copied();
        let lives = matches!(state, Some(TransferState::Committed));
        assert!(!(lives && notice.error.is_some()), "an error for a transfer that lives: {notice:?}");
        told.entry(notice.transfer.0).or_default().insert((notice.kind as u8, notice.party as u8));
    }
    for (id, state) in rows {
        for (kind, party) in due(*state) {
            let heard = told.get(id).is_some_and(|all| all.contains(&(*kind as u8, *party as u8)));
            assert!(heard, "{party:?} was not told {kind:?} of {}, which is {state}", TransferId(*id));
        }
    }
}
