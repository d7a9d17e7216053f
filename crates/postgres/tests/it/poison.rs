//! A bad message becomes a dead letter with its reason, and stops nothing else.

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::positions::Action;
use holdfast_messages::{DeadLetter, PositionMessage, PositionWork, Step};
use holdfast_postgres::{Batch, Error, Incoming};

use crate::world::*;

fn dead_letters(world: &World) -> Vec<(i64, String)> {
    let rows = world.sql().query("SELECT source_offset, reason FROM dead_letter ORDER BY source_offset", &[]);
    rows.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[test]
fn what_the_database_refuses_is_found_by_halving() {
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    let commands: Vec<Command> = (1..=9).map(|id| prepare(id, 1, 2, 1, FAR)).collect();
    let mut messages = all(0, &commands);
    // A rule of the database that no message can know of.
    world.run("ALTER TABLE transfer ADD CHECK (transfer_id::text NOT LIKE '%5')");
    messages[7] = Incoming::read(7, b"k\0".to_vec(), b"\xff\0".to_vec());
    node.transfers.log = messages.clone();
    let step = node.drain_transfers().unwrap();
    assert_eq!((step.messages, step.dead_letters), (9, 2));
    assert!(step.transactions > 1);
    assert_eq!(world.rows("transfer"), 7);
    let letters = dead_letters(&world);
    assert_eq!(letters[0].0, 4);
    assert!(letters[0].1.starts_with("PostgreSQL refuses it"), "{}", letters[0].1);
    assert!(letters[1].0 == 7 && letters[1].1.starts_with("not a message of this topic"), "{letters:?}");
    node.relay();
    // The topic is told the same as the table.
    let told: Vec<_> = node.dead_letters.iter().map(|told| (told.offset, told.reason.clone())).collect();
    let stored: Vec<_> = letters.iter().map(|(at, why)| (u64::try_from(*at).unwrap(), why.clone())).collect();
    assert_eq!(told, stored);
    let DeadLetter { trace, topic, partition, key, value, .. } = &node.dead_letters[0];
    assert_eq!((*trace, topic.as_str(), *partition), (lying_at(4), "transfers", 0));
    assert_eq!((key, value), (&messages[4].key, &messages[4].body));
    assert_eq!(
        (&node.dead_letters[1].key[..], &node.dead_letters[1].value[..]),
        (&b"k\0"[..], &b"\xff\0"[..])
    );
    node.drain_positions();
    assert_eq!(world.value(AccountId(1)), 7);
    world.verify();
}

#[test]
fn a_foreign_command_is_a_dead_letter() {
    let Some((_world, mut node)) = node(1) else { return };
    let create = Admin::CreateParticipant { name: Name::new("late").unwrap(), currency: usd() };
    let foreign =
        PositionMessage { trace: lying_at(0), account: AccountId(1), work: PositionWork::Admin(create) };
    let messages =
        [Incoming { offset: 0, key: b"1".to_vec(), body: b"its bytes".to_vec(), message: Ok(foreign) }];
    let step = done(node.store.positions(&node.positions[0].claim, &Batch::new(0, &messages)).unwrap());
    assert_eq!(step.dead_letters, 1);
}

#[test]
fn unknown_and_misplaced_position_messages_stop_nothing_else() {
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    let commands: Vec<Command> = (1..=3).map(|id| prepare(id, 1, 2, 1, FAR)).collect();
    node.first_hop(&commands);
    let message = |id, account, action| {
        let (transfer, amount) = (TransferId(id), Amount::ZERO);
        let work = PositionWork::Step(Step { action, transfer, amount, error: None, origin: None });
        (AccountId(account), work)
    };
    let from = node.positions[0].at;
    let works = [
        message(1, 99, Action::Prepare),
        message(1, 1, Action::Prepare),
        message(77, 1, Action::Prepare),
        message(2, 99, Action::Prepare),
        message(2, 3, Action::Prepare),
        message(3, 1, Action::Abort),
        message(3, 1, Action::TimeoutReserved),
        message(3, 3, Action::Commit),
        message(3, 1, Action::Prepare),
        message(1, u32::MAX, Action::Prepare),
    ];
    let messages: Vec<Incoming<PositionMessage>> = (from..)
        .zip(works)
        .map(|(offset, (account, work))| {
            incoming(offset, &PositionMessage { trace: lying_at(offset), account, work })
        })
        .collect();
    let step = done(node.store.positions(&node.positions[0].claim, &Batch::new(from, &messages)).unwrap());
    assert_eq!(step.transactions, 1);
    let reasons: Vec<(i64, String)> = dead_letters(&world)
        .into_iter()
        .map(|(at, reason)| (at - i64::try_from(from).unwrap(), reason))
        .collect();
    let uuid = |id: u128| TransferId(id).to_string();
    assert_eq!(
        reasons,
        [
            (0, "there is no account 99".into()),
            (2, format!("there is no transfer {}", uuid(77))),
            (3, "there is no account 99".into()),
            (4, format!("account 3 is not the one that prepare of {} changes", uuid(2))),
            (5, "2001: abort does not fit a transfer that is RECEIVED_PREPARE".into()),
            (6, "2001: timeout-reserved does not fit a transfer that is RECEIVED_PREPARE".into()),
            (9, format!("there is no account {}", u32::MAX)),
        ]
    );
    assert_eq!(world.state(TransferId(1)), "RESERVED");
    assert_eq!(world.state(TransferId(2)), "RECEIVED_PREPARE");
    assert_eq!(world.state(TransferId(3)), "RESERVED");
    // The commit that came too early is told to the payee: 2001 and no state row.
    node.relay();
    assert_eq!(node.answered(lying_at(from + 7)).code.unwrap().number(), 2001);
    assert_eq!(world.value(AccountId(1)), 2);
    world.verify();
}

/// What a newer program wrote is not ours to bury: nothing of the batch happens, and it is there for who knows it.
#[test]
fn a_newer_message_is_not_buried() {
    let Some((world, mut node)) = payer_and_payee(1_000, 1_000) else { return };
    let mut messages = all(0, &[prepare(1, 1, 2, 1, FAR), prepare(2, 1, 2, 1, FAR)]);
    let newer = br#"{"v":2,"trace":"00000000000000000000000000000007","kind":"prepare","who":"knows"}"#;
    messages[1] = Incoming::read(1, b"k".to_vec(), newer.to_vec());
    assert_eq!((messages[0].newer(), messages[1].newer()), (None, Some(2)));
    let before = world.snapshot();
    let refused = node.store.transfers(&node.transfers.claim, &Batch::new(0, &messages));
    assert!(matches!(refused, Err(Error::Newer { offset: 1, version: 2 })), "{refused:?}");
    assert_eq!(world.snapshot(), before);
    // What lies before it can be decided, and an older version is poison as ever.
    done(node.store.transfers(&node.transfers.claim, &Batch::new(0, &messages[..1])).unwrap());
    let older = [Incoming::read(1, b"k".to_vec(), br#"{"v":0}"#.to_vec())];
    let step = done(node.store.transfers(&node.transfers.claim, &Batch::new(1, &older)).unwrap());
    assert_eq!(step.dead_letters, 1);
}
