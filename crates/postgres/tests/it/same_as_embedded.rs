//! The hops of a node, one after the other, lead where the embedded profile's one frame leads: same answers, same states,
//! same positions. Also if every message comes twice.

use holdfast_domain::callbacks::{CallbackMessage, NO_TRANSFER, alarms, callbacks};
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Abort, Admin, Command, Expire, Fulfil, FulfilAction, Lookup};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{AccountId, HUB, Millis, ParticipantId, TransferId};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::Name;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::transfers::{Code, Reason, TransferState};
use holdfast_domain::view::{Accounts, Participants, TransferNumbers, Transfers};
use holdfast_domain::{FrameInput, decide};
use holdfast_messages::Message;
use holdfast_store::{MemoryStore, Store as _};
use proptest::prelude::*;

use crate::callbacks::{PostOffice, register};
use crate::world::*;

const START: Millis = 1_800_000_000_000;

/// One thing that happens to both.
#[derive(Debug, Clone)]
enum Event {
    Frame(Vec<Ask>),
    Operate(u32, Admin),
    Expire { later: Millis },
}

#[derive(Debug, Clone)]
enum Ask {
    Prepare {
        id: u128,
        payer: u32,
        payee: u32,
        source: u32,
        units: i64,
        expires_in: Millis,
    },
    /// The first prepare of that id, once more.
    Again {
        id: u128,
    },
    /// Whatever time it is.
    Command(Command),
}

fn fulfils(id: u128, source: u32, right: bool, reserve: bool) -> Ask {
    let action = if reserve { FulfilAction::Reserve } else { FulfilAction::Commit };
    let preimage = if right { PREIMAGE } else { [8; 32] };
    Ask::Command(Command::Fulfil(Fulfil::new(ParticipantId(source), TransferId(id), action, preimage)))
}

fn aborts(id: u128, source: u32, code: u16) -> Ask {
    Ask::Command(Command::Abort(Abort::new(ParticipantId(source), TransferId(id), code, Vec::new())))
}

fn looks_up(id: u128, source: u32) -> Command {
    Command::Lookup(Lookup { source: ParticipantId(source), id: TransferId(id) })
}

fn party() -> impl Strategy<Value = u32> {
    prop_oneof![12 => 1_u32..=3, 1 => Just(9_u32)]
}

fn ask() -> impl Strategy<Value = Ask> {
    let id = 1_u128..24;
    let expires_in = prop_oneof![4 => Just(1_000_000), 3 => Just(400), 1 => Just(-5)];
    let units = prop_oneof![9 => 1_i64..30, 1 => Just(0_i64)];
    prop_oneof![
        5 => (id.clone(), party(), party(), any::<prop::sample::Index>(), units, expires_in).prop_map(
            |(id, payer, payee, wrong, units, expires_in)| {
                let source = if wrong.index(15) == 0 { payer + 1 } else { payer };
                Ask::Prepare { id, payer, payee, source, units, expires_in }
            }
        ),
        5 => (id.clone(), 1_u32..=3, prop::bool::weighted(0.85), any::<bool>())
            .prop_map(|(id, source, right, reserve)| fulfils(id, source, right, reserve)),
        2 => (id.clone(), 1_u32..=3, 5000_u16..5003).prop_map(|(id, source, code)| aborts(id, source, code)),
        1 => id.clone().prop_map(|id| Ask::Again { id }),
        1 => (id, 1_u32..=3).prop_map(|(id, source)| Ask::Command(looks_up(id, source))),
    ]
}

/// A command of the operator's, and whom it is about.
fn operation() -> impl Strategy<Value = (u32, Admin)> {
    let id = (500_u128..504).prop_map(TransferId);
    let (of, currency, amount) = (1_u32..=3, usd(), |units| Amount::whole(units).unwrap());
    let (participant, position, settlement) =
        (ParticipantId, |of| AccountId(2 * of - 1), |of| AccountId(2 * of));
    prop_oneof![
        3 => (of.clone(), 0_i64..80, 0_u16..102).prop_map(move |(of, cap, alarm_percentage)| {
            let (participant, net_debit_cap) = (participant(of), amount(cap));
            (of, Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage })
        }),
        2 => (id.clone(), of.clone(), 0_i64..40).prop_map(move |(id, of, units)| {
            (of, Admin::FundsIn { id, account: settlement(of), currency, amount: amount(units) })
        }),
        2 => (id.clone(), of.clone(), 1_i64..90).prop_map(move |(id, of, units)| {
            (of, Admin::FundsOutReserve { id, account: settlement(of), currency, amount: amount(units) })
        }),
        1 => (id.clone(), of.clone())
            .prop_map(move |(id, of)| (of, Admin::FundsOutCommit { id, account: settlement(of) })),
        1 => (id, of.clone()).prop_map(move |(id, of)| (of, Admin::FundsOutAbort { id, account: settlement(of) })),
        1 => (of.clone(), any::<bool>())
            .prop_map(move |(of, active)| (of, Admin::SetAccountActive { account: position(of), active })),
        1 => (of, prop::bool::weighted(0.7)).prop_map(move |(of, active)| {
            (of, Admin::SetParticipantActive { participant: participant(of), active })
        }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        7 => prop::collection::vec(ask(), 1..14).prop_map(Event::Frame),
        2 => operation().prop_map(|(of, admin)| Event::Operate(of, admin)),
        1 => prop_oneof![Just(300), Just(900)].prop_map(|later| Event::Expire { later }),
    ]
}

/// Both worlds side by side.
struct Twins {
    world: World,
    node: Node,
    embedded: MemoryStore,
    now: Millis,
    prepares: std::collections::BTreeMap<TransferId, Command>,
    /// The callbacks of the embedded profile since the last comparison.
    calls: Vec<Call>,
    /// Those that were compared.
    compared: Vec<CallbackMessage>,
    post: PostOffice,
}

/// Who is called about which transfer with what.
type Call = (ParticipantId, TransferId, CallbackMessage);

/// What is compared of an answer. Where an expiry ended several holds, their order is not the same in both.
type Answer = (Option<TransferState>, Option<Code>, Option<u8>, Option<Balance>);

fn answer(state: Option<TransferState>, code: Option<Code>, reason: Option<u8>, value: Balance) -> Answer {
    let expired = matches!(state, Some(TransferState::ExpiredReserved | TransferState::ExpiredPrepared));
    (state, code, reason, (!expired).then_some(value))
}

impl Twins {
    fn new(duplicate: bool) -> Option<Twins> {
        let world = World::new()?;
        let mut node = Node::new(&world, 2);
        let post = PostOffice::new(&mut node.store);
        world.set_clock(START);
        let mut twins = Twins {
            world,
            node,
            embedded: MemoryStore::new(1),
            now: START,
            prepares: Default::default(),
            calls: Vec::new(),
            compared: Vec::new(),
            post,
        };
        for (number, name) in (1_u32..).zip(["first", "second", "third"]) {
            let (participant, account) = twins.node.participant(name, 100, 60);
            assert_eq!(participant, ParticipantId(number));
            register(&mut twins.node.store, participant);
            let create = Admin::CreateParticipant { name: Name::new(name).unwrap(), currency: usd() };
            twins.embedded(&[Command::Admin(create)]);
            for admin in first_steps(participant, account, 100, 60) {
                twins.embedded(&[Command::Admin(admin)]);
            }
        }
        twins.compare_callbacks();
        twins.node.duplicate = duplicate;
        Some(twins)
    }

    fn embedded(&mut self, commands: &[Command]) -> Vec<Outcome> {
        self.embedded.sort_due(self.now);
        let frame = FrameInput { base_offset: 0, time: self.now, order: PrepareOrder::Arrival, commands };
        let effects = decide(&self.embedded, &frame);
        self.embedded.apply(&effects, self.now);
        let calls = callbacks(&effects, &self.embedded);
        let calls = calls.into_iter().chain(alarms(&effects, &self.embedded));
        self.calls.extend(calls.map(|call| (call.to, call.transfer, call.message)));
        effects.all(|step| &step.outcomes).cloned().collect()
    }

    fn command(&self, ask: &Ask) -> Command {
        match *ask {
            Ask::Prepare { id, payer, payee, source, units, expires_in } => {
                let mut command = prepare(id, payer, payee, units, self.now + expires_in);
                if let Command::Prepare(prepare) = &mut command {
                    prepare.source = ParticipantId(source);
                }
                command
            }
            Ask::Again { id } => match self.prepares.get(&TransferId(id)) {
                Some(prepare) => prepare.clone(),
                None => looks_up(id, 1),
            },
            Ask::Command(ref command) => command.clone(),
        }
    }

    fn frame(&mut self, asks: &[Ask]) {
        let mut seen = std::collections::BTreeSet::new();
        // In one frame a second command sees the end of the first; in the database profile, the middle. So one each.
        let commands: Vec<Command> = asks
            .iter()
            .map(|ask| self.command(ask))
            .filter(|command| seen.insert(command.transfer()))
            .collect();
        for command in commands.iter().filter(|command| matches!(command, Command::Prepare(_))) {
            let id = command.transfer().unwrap();
            self.prepares.entry(id).or_insert_with(|| command.clone());
        }
        let first = self.node.transfers.log.len();
        let outcomes = self.embedded(&commands);
        self.node.ask(&commands);
        for (at, (command, outcome)) in commands.iter().zip(outcomes).enumerate() {
            let trace = asked(first + at);
            let expected =
                answer(outcome.state, outcome.code, outcome.reason.map(|reason| reason as u8), outcome.value);
            let told = self.node.notifications.iter().filter(|told| told.trace == trace);
            let answers: Vec<Answer> = told
                .filter_map(|told| told.notice.outcome())
                .map(|n| answer(n.state, n.code, n.reason.map(|reason| reason as u8), n.value))
                .collect();
            assert!(answers.contains(&expected), "{command:?}\nembedded {expected:?}\nnode {answers:?}");
            // A repeat that meets the first one half-way is told so, and a repeated refusal shows the position of its own
            // time. No repeat is an error of its own.
            let fits = |answer: &Answer| {
                let half_way = answer.0.is_some_and(|state| !state.is_final())
                    && (answer.1.is_none() || answer.1 == expected.1);
                half_way || (answer.0, answer.1, answer.2) == (expected.0, expected.1, expected.2)
            };
            assert!(answers.iter().all(fits), "{command:?}: embedded {expected:?}, node {answers:?}");
            assert!(
                self.node.duplicate || answers.iter().all(|answer| *answer == expected),
                "{command:?}: {answers:?}"
            );
        }
    }

    fn operate(&mut self, of: u32, admin: Admin) {
        let expected = self.embedded(&[Command::Admin(admin)]).remove(0);
        if matches!(admin, Admin::SetParticipantActive { .. }) {
            assert_eq!(self.node.store.participant(&admin).unwrap(), expected);
            return;
        }
        self.node.operate(AccountId(2 * of - 1), admin);
        let told = self.node.notifications.first().and_then(|told| told.notice.outcome());
        let told = told.expect("the operator is answered");
        assert_eq!(
            (told.code, told.subject, told.value),
            (expected.code, expected.subject, expected.value),
            "{admin:?}"
        );
    }

    fn expire(&mut self, later: Millis) {
        self.now += later;
        self.world.set_clock(self.now);
        let outcome = self.embedded(&[Command::Expire(Expire { holds_max: 10_000 })]).remove(0);
        assert_eq!(self.node.expire() as u64, outcome.subject.ended());
    }

    /// The node's notifications become the callbacks of the embedded profile. Those of messages that come twice do too,
    /// and more often.
    fn compare_callbacks(&mut self) {
        let told = std::mem::take(&mut self.node.notifications);
        let of_node = told.iter().flat_map(|told| {
            let to = told.notice.to().unwrap_or(HUB);
            let transfer = if told.key().contains('-') { told.key().parse().unwrap() } else { NO_TRANSFER };
            told.callbacks().into_iter().map(move |message| (to, transfer, message))
        });
        // Only the embedded profile asks whether somebody is a participant; a node of the database profile does when it calls.
        let mut of_node: Vec<String> = of_node
            .filter(|(to, ..)| self.embedded.participant(*to).is_some())
            .map(|call| format!("{call:?}"))
            .collect();
        self.compared.extend(self.calls.iter().map(|(_, _, message)| *message));
        let mut expected: Vec<String> =
            std::mem::take(&mut self.calls).iter().map(|call| format!("{call:?}")).collect();
        // What lies in the table is the same; a repeat makes no second row.
        self.post.receive(&mut self.node.store, &told);
        let delivered = self.post.deliver_all(&mut self.node.store);
        let mut delivered: Vec<String> =
            delivered.iter().map(|due| format!("{:?}", (due.to, due.transfer, due.message))).collect();
        delivered.sort();
        of_node.sort();
        expected.sort();
        if self.node.duplicate {
            let missing = expected.iter().find(|call| !delivered.contains(call));
            assert_eq!(missing, None, "it is not in the table");
            assert!(delivered.iter().all(|call| of_node.contains(call)));
        } else {
            assert_eq!(delivered, expected);
        }
        if self.node.duplicate {
            of_node.dedup();
            expected.dedup();
            let missing: Vec<&String> = expected.iter().filter(|call| !of_node.contains(call)).collect();
            assert!(missing.is_empty(), "{missing:?} are missing in {of_node:?}");
        } else {
            assert_eq!(of_node, expected);
        }
    }

    fn compare(&self) {
        let states = self.world.states();
        assert_eq!(states.len() as u64, self.embedded.next_transfer().0);
        for (id, state) in states {
            assert_eq!(self.embedded.transfer(id).unwrap().state.name(), state, "{id}");
        }
        let rows = self.world.sql().query(
            "SELECT participant_currency_id, (p.value * 10000)::bigint, c.is_active, (l.value * 10000)::bigint
             FROM participant_position p JOIN participant_currency c USING (participant_currency_id)
             LEFT JOIN participant_limit l USING (participant_currency_id) WHERE coalesce(l.is_active, true)",
            &[],
        );
        let rows = rows.unwrap();
        assert_eq!(rows.len(), 6);
        for row in rows {
            let id = AccountId(u32::try_from(row.get::<_, i32>(0)).unwrap());
            let account = self.embedded.account(id).unwrap();
            let stored: (i64, bool, Option<i64>) = (row.get(1), row.get(2), row.get(3));
            let value = i64::try_from(account.value.0).unwrap();
            assert_eq!(stored, (value, account.active, account.net_debit_cap.map(|cap| cap.0)), "{id:?}");
        }
    }
}

/// The callbacks that both made; `None` without a server.
fn run(events: &[Event], duplicate: bool) -> Option<Vec<CallbackMessage>> {
    let mut twins = Twins::new(duplicate)?;
    for event in events {
        match event {
            Event::Frame(asks) => twins.frame(asks),
            Event::Operate(of, admin) => twins.operate(*of, *admin),
            Event::Expire { later } => twins.expire(*later),
        }
        twins.compare_callbacks();
    }
    twins.compare();
    assert_eq!(twins.world.rows("dead_letter"), 0);
    twins.world.verify();
    Some(twins.compared)
}

/// Each way that a transfer can go, and each command once more where it ended: all callbacks that there are.
#[test]
fn every_kind_of_callback_is_that_of_the_embedded_profile() {
    let prepare =
        |id, units, expires_in| Ask::Prepare { id, payer: 1, payee: 2, source: 1, units, expires_in };
    let fulfil = |id, right, reserve| fulfils(id, 2, right, reserve);
    let first: Vec<Ask> = (1..=6)
        .map(|id| prepare(id, 5, 1_000_000))
        .chain([
            prepare(7, 20, 1_000_000),
            prepare(8, 30, 1_000_000),
            prepare(9, 1, 400),
            prepare(10, 1, -5),
            prepare(11, 1, 400),
        ])
        .collect();
    let ends = vec![
        fulfil(1, true, false),
        fulfil(2, true, true),
        fulfil(3, false, false),
        fulfil(4, false, true),
        aborts(5, 2, 5001),
        fulfil(6, true, true),
        fulfil(99, true, true),
    ];
    let late = vec![
        fulfil(9, true, true),
        fulfil(11, true, false),
        fulfil(8, true, true),
        fulfil(10, true, true),
        Ask::Command(looks_up(1, 1)),
        Ask::Command(looks_up(7, 3)),
    ];
    let events = [
        Event::Frame(first),
        Event::Frame(ends.clone()),
        Event::Frame(ends),
        Event::Expire { later: 900 },
        Event::Frame(late.clone()),
        Event::Frame(late),
        Event::Frame((1..=11).map(|id| Ask::Again { id }).collect()),
        Event::Frame((1..=11).map(|id| prepare(id, 2, 1_000_000)).collect()),
    ];
    for duplicate in [false, true] {
        let Some(compared) = run(&events, duplicate) else { return };
        let kinds: std::collections::BTreeSet<&str> = compared.iter().map(kind).collect();
        let all = ["Alarm", "Error", "ForwardError", "ForwardFulfil", "ForwardPrepare", "Patch", "Put"];
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
        for message in [
            CallbackMessage::Patch(TransferState::AbortedError),
            CallbackMessage::Patch(TransferState::Committed),
            CallbackMessage::Patch(TransferState::ExpiredReserved),
            CallbackMessage::Error(ErrorCode::ValidationError.into(), Some(Reason::WrongFulfilment)),
        ] {
            assert!(compared.contains(&message), "{message:?}");
        }
    }
}

const fn kind(message: &CallbackMessage) -> &'static str {
    match message {
        CallbackMessage::ForwardPrepare => "ForwardPrepare",
        CallbackMessage::ForwardFulfil => "ForwardFulfil",
        CallbackMessage::ForwardError => "ForwardError",
        CallbackMessage::Put(_) => "Put",
        CallbackMessage::Patch(_) => "Patch",
        CallbackMessage::Error(..) => "Error",
        CallbackMessage::Alarm { .. } => "Alarm",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hops_lead_where_a_frame_leads(events in prop::collection::vec(event(), 4..24)) {
        run(&events, false);
    }

    #[test]
    fn messages_that_come_twice_change_nothing(events in prop::collection::vec(event(), 4..24)) {
        run(&events, true);
    }
}
