//! Whoever asks is told: the trace of every message comes back in a notification, or its message is a dead letter. Also for
//! messages that nobody should send.

use std::collections::BTreeSet;

use holdfast_domain::command::{Admin, Command, Funding, Lookup};
use holdfast_domain::ids::{AccountId, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::positions::Action;
use holdfast_messages::{Message, PositionMessage, PositionWork, Step, TraceId};
use proptest::prelude::*;

use crate::world::*;

const START: Millis = 1_800_000_000_000;

#[derive(Debug, Clone)]
enum Sent {
    Transfer { kind: u8, id: u128, party: u32 },
    Admin { kind: u8, of: u32, units: i64 },
    Step { action: Action, id: u128, account: u32 },
    Poison { kind: u8, position: bool },
    ClockMovesOn,
    HandlersWork,
}

fn sent() -> impl Strategy<Value = Sent> {
    let id = 1_u128..10;
    prop_oneof![
        8 => (0_u8..7, id.clone(), 1_u32..=3).prop_map(|(kind, id, party)| Sent::Transfer { kind, id, party }),
        2 => (0_u8..6, 1_u32..=3, 0_i64..200).prop_map(|(kind, of, units)| Sent::Admin { kind, of, units }),
        4 => (prop::sample::select(Action::ALL.to_vec()), id, 1_u32..9)
            .prop_map(|(action, id, account)| Sent::Step { action, id, account }),
        2 => (0_u8..4, any::<bool>()).prop_map(|(kind, position)| Sent::Poison { kind, position }),
        1 => Just(Sent::ClockMovesOn),
        3 => Just(Sent::HandlersWork),
    ]
}

fn command(kind: u8, id: u128, party: u32, now: Millis) -> Command {
    let other = party % 3 + 1;
    match kind {
        0 | 1 => prepare(id, party, other, 5, FAR),
        2 => prepare(id, party, other, 5, now + 100),
        3 => fulfil(id, party),
        4 => abort(id, party),
        5 => Command::Lookup(Lookup { source: ParticipantId(party), id: TransferId(id) }),
        _ => {
            let Command::Prepare(mut prepare) = prepare(id, party, other, 5, FAR) else { unreachable!() };
            let funding = Funding::new(prepare.id, "alice".into(), "bob".into(), Vec::new());
            prepare.funding = Some(Box::new(funding));
            Command::Prepare(prepare)
        }
    }
}

fn admin(kind: u8, of: u32, units: i64) -> Admin {
    let (participant, currency, amount) = (ParticipantId(of), usd(), Amount::whole(units).unwrap());
    let (id, account) = (TransferId(900), AccountId(2 * of));
    match kind {
        0 => Admin::SetLimit { participant, currency, net_debit_cap: amount, alarm_percentage: 80 },
        1 => Admin::FundsIn { id: TransferId(units.unsigned_abs().into()), account, currency, amount },
        2 => Admin::FundsOutReserve { id, account, currency, amount },
        3 => Admin::FundsOutCommit { id, account },
        4 => Admin::FundsOutAbort { id, account },
        _ => Admin::SetAccountActive { account: AccountId(2 * of - 1), active: units % 3 > 0 },
    }
}

fn step(trace: TraceId, (action, id, account): (Action, u128, u32)) -> PositionMessage {
    let step = Step { action, transfer: TransferId(id), amount: Amount::ZERO, error: None, origin: None };
    PositionMessage { trace, account: AccountId(account), work: PositionWork::Step(step) }
}

/// What may come with a trace, and what has none that could be made out.
fn poison(kind: u8, message: &impl Message) -> (String, Vec<u8>) {
    let json = String::from_utf8(message.to_json()).unwrap();
    match kind {
        0 => (message.key(), json.replacen("\"v\":1", "\"v\":0", 1).into_bytes()),
        1 => ("another".into(), json.into_bytes()),
        2 => (message.key(), json.replacen("\"type\":\"", "\"type\":\"un", 1).into_bytes()),
        _ => (message.key(), b"\xff\0{".to_vec()),
    }
}

fn run(all: &[Sent]) {
    let Some((world, mut node)) = node(1) else { return };
    world.set_clock(START);
    for name in ["first", "second", "third"] {
        node.participant(name, 100, 60);
    }
    let mut now = START;
    let mut traces = BTreeSet::new();
    let mut letters = BTreeSet::new();
    for (number, sent) in all.iter().enumerate() {
        let trace = TraceId(1 + number as u128);
        traces.insert(trace);
        match *sent {
            Sent::Transfer { kind, id, party } => {
                node.transfers.say(&transfer_message(trace, &command(kind, id, party, now)));
            }
            Sent::Admin { kind, of, units } => {
                let account = AccountId(2 * of - 1);
                let message = PositionMessage::admin(trace, account, admin(kind, of, units));
                node.positions[0].say(&message.unwrap());
            }
            Sent::Step { action, id, account } => {
                node.positions[0].say(&step(trace, (action, id, account)));
            }
            Sent::Poison { kind, position: true } => {
                letters.insert(("position", node.positions[0].log.len() as u64));
                let (key, value) = poison(kind, &step(trace, (Action::Prepare, 1, 1)));
                node.positions[0].push(&key, &value);
                traces.remove(&trace);
                traces.extend((kind < 3).then_some(trace));
            }
            Sent::Poison { kind, position: false } => {
                letters.insert(("transfers", node.transfers.log.len() as u64));
                let (key, value) = poison(kind, &transfer_message(trace, &fulfil(1, 1)));
                node.transfers.push(&key, &value);
                traces.remove(&trace);
                traces.extend((kind < 3).then_some(trace));
            }
            Sent::ClockMovesOn => {
                traces.remove(&trace);
                now += 101;
                world.set_clock(now);
                node.expire_only();
            }
            Sent::HandlersWork => {
                traces.remove(&trace);
                node.drain();
            }
        }
    }
    node.drain();
    let told = node.notifications.iter().map(|told| told.trace);
    let told: BTreeSet<TraceId> = told.chain(node.dead_letters.iter().map(|dead| dead.trace)).collect();
    let missing: Vec<_> = traces.difference(&told).collect();
    assert!(missing.is_empty(), "nobody is told of {missing:?}");
    let dead: BTreeSet<(&str, u64)> =
        node.dead_letters.iter().map(|dead| (dead.topic.as_str(), dead.offset)).collect();
    assert!(letters.is_subset(&dead), "{letters:?} are not all in {dead:?}");
    let stored = world.rows("dead_letter");
    assert_eq!(
        usize::try_from(stored).unwrap(),
        node.dead_letters.len(),
        "once in the table, once in the topic"
    );
    world.verify();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_trace_comes_back(all in prop::collection::vec(sent(), 5..60)) {
        run(&all);
    }
}

/// Twins in one batch: the bins decide the first and give the second its result, so nobody would be told of the second.
#[test]
fn a_twin_in_the_same_batch_is_answered() {
    let twins = |action| {
        let step = Sent::Step { action, id: 1, account: 1 };
        vec![
            Sent::Transfer { kind: 0, id: 1, party: 1 },
            step.clone(),
            step.clone(),
            Sent::HandlersWork,
            step.clone(),
            // An operator's command between them cuts the batch into runs.
            Sent::Admin { kind: 0, of: 1, units: 50 },
            step.clone(),
            step,
        ]
    };
    for action in Action::ALL {
        run(&twins(action));
    }
}
