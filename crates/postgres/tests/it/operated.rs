//! The operator's messages, each decided once however often it lies in its topic.

use holdfast_domain::command::Admin;
use holdfast_domain::ids::{AccountId, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_messages::{PositionMessage, PositionWork, TraceId};
use holdfast_postgres::{Batch, Incoming, OPERATOR_MESSAGES_KEPT};

use crate::world::*;

fn operator(trace: u128, admin: Admin) -> PositionMessage {
    PositionMessage::admin(TraceId(trace), PAYER_ACCOUNT, admin).unwrap()
}

fn limit(trace: u128, cap: i64) -> PositionMessage {
    let (participant, net_debit_cap) = (ParticipantId(1), Amount::whole(cap).unwrap());
    operator(trace, Admin::SetLimit { participant, currency: usd(), net_debit_cap, alarm_percentage: 10 })
}

fn active(trace: u128, active: bool) -> PositionMessage {
    operator(trace, Admin::SetAccountActive { account: PAYER_ACCOUNT, active })
}

fn funds_out(trace: u128, units: i64) -> PositionMessage {
    let (id, amount) = (TransferId(77), Amount::whole(units).unwrap());
    operator(trace, Admin::FundsOutReserve { id, account: AccountId(2), currency: usd(), amount })
}

const CAP: &str =
    "SELECT value::bigint FROM participant_limit WHERE participant_currency_id = 1 AND is_active";
const ACTIVE: &str =
    "SELECT is_active::int::bigint FROM participant_currency WHERE participant_currency_id = 1";
const FUNDS: &str =
    "SELECT count(*) FROM participant_funds WHERE transfer_id = '00000000-0000-0000-0000-00000000004d'";

/// A copy that comes late does not undo what the operator said meanwhile.
#[test]
fn a_doubled_message_changes_nothing() {
    let Some((world, mut node)) = node(1) else { return };
    node.participant("payer", 100, 100);
    let say = |node: &mut Node, messages: &[PositionMessage]| {
        messages.iter().for_each(|message| node.positions[0].say(message));
        node.drain();
    };
    // Twice in one batch, and again in a later one.
    say(&mut node, &[limit(1, 50), limit(1, 50), limit(2, 60), limit(1, 50)]);
    assert_eq!(world.count(CAP), 60);
    say(&mut node, &[limit(1, 50)]);
    assert_eq!(world.count(CAP), 60);
    say(&mut node, &[active(3, false), active(4, true), active(3, false)]);
    assert_eq!(world.count(ACTIVE), 1);
    // More than there is: refused, and a copy that comes when there is enough takes nothing.
    say(&mut node, &[funds_out(5, 150)]);
    assert_eq!(node.last().code.map(|code| code.number()), Some(4001));
    let more = Admin::FundsIn {
        id: TransferId(78),
        account: AccountId(2),
        currency: usd(),
        amount: Amount::whole(1_000).unwrap(),
    };
    node.operate(AccountId(1), more);
    say(&mut node, &[funds_out(5, 150)]);
    assert_eq!(world.count(FUNDS), 0);
    // Whoever asks anew is heard.
    say(&mut node, &[funds_out(6, 150), limit(7, 50)]);
    assert_eq!((world.count(FUNDS), world.count(CAP)), (1, 50));
    let answers = |trace: u128| node.notifications.iter().filter(|told| told.trace == TraceId(trace)).count();
    assert_eq!((1..=7).map(answers).collect::<Vec<_>>(), [1; 7], "each is answered once");
    assert_eq!(node.dead_letters.len(), 0);
    world.verify();
}

/// An operator who has mended what was in the way sends it once more from the dead letters, byte by byte.
#[test]
fn a_message_that_was_buried_is_not_taken_for_decided() {
    let Some((world, mut node)) = node(1) else { return };
    node.participant("payer", 100, 100);
    let rule = "ALTER TABLE participant_limit ADD CONSTRAINT rule CHECK (value <> 50)";
    world.run(rule);
    for buried in 1..=2 {
        node.positions[0].say(&limit(1, 50));
        node.drain();
        assert_eq!((node.dead_letters.len(), world.count(CAP)), (buried, 100));
    }
    world.run("ALTER TABLE participant_limit DROP CONSTRAINT rule");
    node.positions[0].say(&limit(1, 50));
    node.drain();
    assert_eq!((node.dead_letters.len(), world.count(CAP)), (2, 50));
    world.verify();
}

/// The same for one that does not belong there: it is buried as often as it comes.
#[test]
fn a_foreign_message_is_buried_each_time() {
    let Some((world, mut node)) = node(1) else { return };
    let create = Admin::CreateParticipant { name: Name::new("late").unwrap(), currency: usd() };
    let foreign =
        PositionMessage { trace: TraceId(1), account: AccountId(1), work: PositionWork::Admin(create) };
    for (offset, buried) in [(0, 1), (1, 2)] {
        let message =
            Incoming { offset, key: b"1".to_vec(), body: b"its bytes".to_vec(), message: Ok(foreign) };
        let step = node.store.positions(&node.positions[0].claim, &Batch::new(offset, &[message]));
        assert_eq!(done(step.unwrap()).dead_letters, 1);
        assert_eq!(world.rows("dead_letter"), buried);
    }
    assert_eq!(world.rows("operator_message"), 0);
}

/// What was decided long ago is forgotten bit by bit; a message without a trace is nobody's repeat.
#[test]
fn old_ones_are_forgotten() {
    let Some((world, mut node)) = node(1) else { return };
    node.participant("payer", 100, 100);
    let now = 1_900_000_000_000;
    world.set_clock(now);
    let remembered = "SELECT count(*) FROM operator_message";
    world.run("DELETE FROM operator_message");
    let say = |node: &mut Node, message: PositionMessage| {
        node.positions[0].say(&message);
        node.drain();
    };
    say(&mut node, limit(1, 50));
    say(&mut node, limit(0, 51));
    assert_eq!((world.count(remembered), world.count(CAP)), (1, 51));
    world.set_clock(now + OPERATOR_MESSAGES_KEPT + 1);
    say(&mut node, limit(2, 60));
    assert_eq!((world.count(remembered), world.count(CAP)), (1, 60), "the new one alone");
    say(&mut node, limit(0, 51));
    assert_eq!(world.count(CAP), 51);
}
