//! A bad message becomes a dead letter with its reason, and stops nothing else.

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::positions::Action;
use holdfast_postgres::{Batch, Incoming, PositionMessage, PositionRequest};

use crate::world::*;

fn dead_letters(world: &World) -> Vec<(i64, String)> {
    let rows = world.sql().query("SELECT source_offset, reason FROM dead_letter ORDER BY source_offset", &[]);
    rows.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[test]
fn what_the_database_refuses_is_found_by_halving() {
    let Some(world) = World::new() else { return };
    let mut cluster = Cluster::new(&world, 1);
    cluster.participant("payer", 1_000, 1_000);
    cluster.participant("payee", 0, 10);
    let commands: Vec<Command> = (1..=9).map(|id| prepare(id, 1, 2, 1, FAR)).collect();
    let mut messages = all(0, &commands);
    // PostgreSQL's texts have no NUL, and the trace of a message is a text in the outbox.
    messages[4].trace = "nul\0".into();
    messages[7].message = Err("not JSON".into());
    let step = done(cluster.store.transfers(&cluster.transfers.claim, &Batch::new(0, &messages)).unwrap());
    assert_eq!((step.messages, step.dead_letters), (9, 2));
    assert!(step.transactions > 1);
    assert_eq!(world.count("SELECT count(*) FROM transfer"), 7);
    let letters = dead_letters(&world);
    assert_eq!(letters[0].0, 4);
    assert!(letters[0].1.starts_with("PostgreSQL refuses it"), "{}", letters[0].1);
    assert_eq!(letters[1], (7, "not JSON".into()));
    cluster.relay();
    cluster.drain_positions();
    assert_eq!(world.value(AccountId(1)), 7);
    world.verify();
}

#[test]
fn a_foreign_command_is_a_dead_letter() {
    let Some(world) = World::new() else { return };
    let mut cluster = Cluster::new(&world, 1);
    let create = Admin::CreateParticipant { name: Name::new("late").unwrap(), currency: usd() };
    let messages = all(0, &[Command::Admin(create)]);
    let step = done(cluster.store.transfers(&cluster.transfers.claim, &Batch::new(0, &messages)).unwrap());
    assert_eq!(step.dead_letters, 1);
    let messages = all(0, &[PositionRequest::Admin(create)]);
    let step = done(cluster.store.positions(&cluster.positions[0].claim, &Batch::new(0, &messages)).unwrap());
    assert_eq!(step.dead_letters, 1);
}

#[test]
fn unknown_and_misplaced_position_messages_stop_nothing_else() {
    let Some(world) = World::new() else { return };
    let mut cluster = Cluster::new(&world, 1);
    cluster.participant("payer", 1_000, 1_000);
    cluster.participant("payee", 0, 10);
    let commands: Vec<Command> = (1..=3).map(|id| prepare(id, 1, 2, 1, FAR)).collect();
    done(cluster.store.transfers(&cluster.transfers.claim, &Batch::new(0, &all(0, &commands))).unwrap());
    let message = |id, account, action| {
        let (transfer, account) = (TransferId(id), AccountId(account));
        PositionRequest::Transfer(PositionMessage { transfer, account, action, amount: Amount::ZERO })
    };
    let from = cluster.positions[0].at;
    let messages: Vec<Incoming<PositionRequest>> = all(
        from,
        &[
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
        ],
    );
    let step =
        done(cluster.store.positions(&cluster.positions[0].claim, &Batch::new(from, &messages)).unwrap());
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
    cluster.relay();
    let refused = cluster.notifications.iter().find(|(trace, _)| *trace == format!("t{}", from + 7)).unwrap();
    assert_eq!(refused.1.code.unwrap().number(), 2001);
    assert_eq!(world.value(AccountId(1)), 2);
    world.verify();
}
