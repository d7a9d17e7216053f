//! Notifications become rows, and rows are delivered once each by whoever holds their shard.

use std::time::Duration;

use holdfast_domain::callbacks::{CallbackMessage, NO_TRANSFER};
use holdfast_domain::command::{Command, SetEndpoint};
use holdfast_domain::effects::Asked;
use holdfast_domain::ids::{AccountId, HUB, ParticipantId, TransferId};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::transfers::TransferState;
use holdfast_messages::{Alarm, Answer, Notice, Notification, TraceId};
use holdfast_postgres::{Batch, Claim, DueCallback, Failed, Given, Source, Step, Store};

use crate::world::*;

const SECOND: Duration = Duration::from_secs(1);

/// The third handler over a queue in memory, and the claims of all shards.
pub struct PostOffice {
    notices: Queue<Notification>,
    pub shards: Vec<Claim>,
}

impl PostOffice {
    pub fn new(store: &mut Store) -> PostOffice {
        PostOffice { notices: Queue::new(store, 0), shards: claims(store) }
    }

    /// Lets the handler take them.
    pub fn receive(&mut self, store: &mut Store, told: &[Notification]) -> usize {
        told.iter().for_each(|told| self.notices.say(told));
        let done = self.notices.take(|claim, batch| store.callbacks(claim, batch));
        done.map_or(0, |done| done.unheard)
    }

    pub fn due(&self, store: &mut Store) -> Vec<DueCallback> {
        store.due_callbacks(&self.shards, &[], &[], 1_000, 1_000).unwrap()
    }

    pub fn claim_of(&self, due: &DueCallback) -> &Claim {
        &self.shards[due.to.0 as usize % self.shards.len()]
    }

    /// Delivers until nothing is due.
    pub fn deliver_all(&self, store: &mut Store) -> Vec<DueCallback> {
        let mut delivered = Vec::new();
        loop {
            let due = self.due(store);
            if due.is_empty() {
                return delivered;
            }
            let mut pairs: Vec<_> = due.iter().map(|due| (due.to, due.transfer)).collect();
            pairs.retain(|(_, transfer)| *transfer != NO_TRANSFER);
            pairs.sort();
            assert!(pairs.windows(2).all(|pair| pair[0] != pair[1]), "one of a transfer at a time");
            for due in due {
                assert!(store.callbacks_ended(self.claim_of(&due), &[due.id]).unwrap());
                delivered.push(due);
            }
        }
    }
}

fn claims(store: &mut Store) -> Vec<Claim> {
    (0..8).map(|shard| store.claim(&Source::Callback(shard)).unwrap()).collect()
}

/// Endpoints of every kind.
pub fn register(store: &mut Store, participant: ParticipantId) {
    for kind in [
        "FSPIOP_CALLBACK_URL_TRANSFER_POST",
        "FSPIOP_CALLBACK_URL_TRANSFER_PUT",
        "FSPIOP_CALLBACK_URL_TRANSFER_ERROR",
        "ALARM_NOTIFICATION_URL",
    ] {
        endpoint(store, participant, kind);
    }
}

fn endpoint(store: &mut Store, participant: ParticipantId, kind: &str) {
    let endpoint = SetEndpoint::new(participant, kind.into(), "http://127.0.0.1:1/".into()).unwrap();
    assert_eq!(store.endpoint(&endpoint).unwrap().code, None);
}

fn put(trace: u128, to: u32, transfer: u128) -> Notification {
    let answer = Answer {
        to: Some(ParticipantId(to)),
        asked: Asked::Lookup,
        repeat: false,
        transfer: Some(TransferId(transfer)),
        state: Some(TransferState::Reserved),
        error: None,
        completion: None,
        subject: 0,
        value: Balance::ZERO,
        origin: None,
    };
    Notification { trace: TraceId(trace), notice: Notice::Answer(answer) }
}

fn alarm(to: u32) -> Notification {
    let to = Some(ParticipantId(to));
    let alarm = Alarm { to, account: AccountId(1), value: Balance(7), net_debit_cap: Amount(8) };
    Notification { trace: TraceId::NOBODY, notice: Notice::Alarm(alarm) }
}

/// A database with two participants that want everything, and the office.
fn office() -> Option<(World, Node, PostOffice)> {
    let world = World::new()?;
    let mut node = Node::new(&world, 1);
    for name in ["first", "second"] {
        let (participant, _) = node.participant(name, 100, 60);
        register(&mut node.store, participant);
    }
    node.participant("silent", 100, 60);
    node.notifications.clear();
    let post = PostOffice::new(&mut node.store);
    world.set_clock(1_800_000_000_000);
    Some((world, node, post))
}

#[test]
fn a_repeat_makes_no_second_row_and_a_second_question_does() {
    let Some((world, mut node, mut post)) = office() else { return };
    let store = &mut node.store;
    assert_eq!(post.receive(store, &[put(1, 1, 5), put(1, 1, 5), put(2, 1, 5), put(1, 2, 5)]), 0);
    assert_eq!(post.receive(store, &[put(1, 1, 5)]), 0);
    assert_eq!(world.rows("callback"), 3);
    let delivered = post.deliver_all(store);
    assert_eq!(delivered.len(), 3);
    assert!(delivered.iter().all(|due| due.message == CallbackMessage::Put(TransferState::Reserved)));
    assert_eq!(world.rows("callback"), 0);
    world.verify();
}

#[test]
fn who_has_no_endpoint_is_counted_and_an_alarm_turns_to_the_hub() {
    let Some((world, mut node, mut post)) = office() else { return };
    let store = &mut node.store;
    assert_eq!(post.receive(store, &[put(1, 3, 5), put(1, u32::MAX, 5), alarm(3)]), 3);
    assert_eq!(world.rows("callback"), 0);
    endpoint(store, HUB, "ALARM_NOTIFICATION_URL");
    assert_eq!(post.receive(store, &[alarm(3), alarm(1), alarm(1), put(1, 3, 5)]), 1);
    let due = post.due(store);
    let whom: Vec<u32> = due.iter().map(|due| due.to.0).collect();
    assert_eq!(whom, [0, 1, 1], "two alarms are two, and neither waits for the other");
    let facts = store.callback_facts(&due).unwrap();
    assert_eq!(facts[0].receiver.as_deref(), Some("Hub"));
    assert_eq!(facts[0].alarmed, Some(("first".into(), usd(), 10)));
}

#[test]
fn one_of_a_transfer_at_a_time_others_pass_and_bounds_hold() {
    let Some((world, mut node, mut post)) = office() else { return };
    let store = &mut node.store;
    post.receive(store, &[put(1, 1, 5), put(2, 1, 5), put(3, 1, 6), put(4, 2, 5), put(5, 1, 7)]);
    let traces = |due: &[DueCallback]| due.iter().map(|due| (due.to.0, due.transfer.0)).collect::<Vec<_>>();
    let due = post.due(store);
    assert_eq!(traces(&due), [(1, 5), (1, 6), (2, 5), (1, 7)]);
    let ask = |store: &mut Store, in_hand: &[u64], full: &[u32], each, max| {
        let full: Vec<ParticipantId> = full.iter().map(|id| ParticipantId(*id)).collect();
        traces(&store.due_callbacks(&post.shards, in_hand, &full, each, max).unwrap())
    };
    assert_eq!(ask(store, &[due[0].id], &[], 9, 9), [(1, 6), (2, 5), (1, 7)], "its next one still waits");
    assert_eq!(ask(store, &[], &[1], 9, 9), [(2, 5)]);
    assert_eq!(ask(store, &[], &[], 1, 9), [(1, 5), (2, 5)]);
    assert_eq!(ask(store, &[], &[], 9, 2), [(1, 5), (1, 6)]);
    // One that failed rests, and holds its transfer back.
    let failed = Failed { id: due[0].id, attempts: 1, url: None, why: "no\0".into() };
    assert!(store.callbacks_failed(&post.shards[1], &[(failed, SECOND)]).unwrap());
    assert_eq!(ask(store, &[], &[], 9, 9), [(1, 6), (2, 5), (1, 7)]);
    world.set_clock(1_800_000_001_000);
    let again = post.due(store).into_iter().find(|again| again.id == due[0].id).unwrap();
    assert_eq!(again.attempts, 1);
    assert_eq!(post.deliver_all(store).len(), 5);
}

#[test]
fn a_claim_that_was_lost_sees_and_writes_nothing() {
    let Some((world, mut node, mut post)) = office() else { return };
    let store = &mut node.store;
    post.receive(store, &[put(1, 1, 5)]);
    let due = post.due(store)[0];
    let lost = post.shards[1];
    post.shards = claims(store);
    let before = world.sql().query_one("SELECT row(callback.*)::text FROM callback", &[]).unwrap();
    let failed = Failed { id: due.id, attempts: 9, url: None, why: "late".into() };
    assert_eq!(store.due_callbacks(&[lost], &[], &[], 9, 9).unwrap(), []);
    assert!(!store.callbacks_ended(&lost, &[due.id]).unwrap());
    assert!(!store.callbacks_failed(&lost, &[(failed.clone(), SECOND)]).unwrap());
    assert!(!store.callbacks_dead(&lost, &[failed]).unwrap());
    let after = world.sql().query_one("SELECT row(callback.*)::text FROM callback", &[]).unwrap();
    assert_eq!(before.get::<_, String>(0), after.get::<_, String>(0));
    assert_eq!(post.due(store), [due], "whoever claimed it has it");
}

#[test]
fn what_is_given_up_stays_until_it_is_delivered() {
    let Some((world, mut node, mut post)) = office() else { return };
    let store = &mut node.store;
    post.receive(store, &[put(1, 1, 5), put(2, 1, 5), put(3, 2, 6)]);
    let due = post.due(store);
    let why = |id| Failed { id, attempts: 10, url: Some("http://x/".into()), why: "gone".into() };
    for due in &due {
        assert!(store.callbacks_dead(post.claim_of(due), &[why(due.id)]).unwrap());
    }
    let next = post.deliver_all(store);
    assert_eq!(next.len(), 1, "the next of its transfer may go");
    let dead = store.dead_callbacks(None, None, 10).unwrap();
    assert_eq!(dead.iter().map(|dead| dead.id).collect::<Vec<_>>(), [due[0].id, due[1].id]);
    let first = &dead[0];
    assert_eq!(
        (first.name.as_deref(), first.last_error.as_str(), first.attempts, first.retrying, first.at),
        (Some("first"), "gone", 10, false, 1_800_000_000_000)
    );
    assert_eq!(store.dead_callbacks(Some(ParticipantId(2)), None, 10).unwrap(), [dead[1].clone()]);
    assert_eq!(store.dead_callbacks(None, Some(first.id), 10).unwrap(), [dead[1].clone()]);
    assert_eq!(store.count_dead_callbacks(10).unwrap(), 2);
    assert_eq!(store.retry_callback(next[0].id).unwrap(), Given::Nothing);
    assert_eq!(store.retry_callback(first.id).unwrap(), Given::Another);
    assert_eq!(store.retry_callback(first.id).unwrap(), Given::Already);
    assert!(store.dead_callbacks(None, None, 1).unwrap()[0].retrying);
    let again = post.due(store);
    assert_eq!((again[0].id, again[0].attempts, again.len()), (first.id, 0, 1));
    // It fails again, and is still one letter.
    assert!(store.callbacks_dead(post.claim_of(&again[0]), &[why(first.id)]).unwrap());
    assert_eq!(store.retry_callbacks(Some(ParticipantId(2)), 10).unwrap(), 1);
    assert_eq!(store.retry_callbacks(None, 10).unwrap(), 1, "the other is on its way already");
    assert_eq!(post.deliver_all(store).len(), 2);
    assert_eq!(world.rows("callback"), 0);
}

#[test]
fn poison_is_a_dead_letter_and_stops_nothing() {
    let Some((world, mut node, mut post)) = office() else { return };
    post.notices.push("x", b"{\"v\":1}");
    post.receive(&mut node.store, &[put(1, 1, 5)]);
    assert_eq!(world.rows("dead_letter"), 1);
    assert_eq!(post.deliver_all(&mut node.store).len(), 1);
    let step = node.store.callbacks(&post.notices.claim, &Batch::new(0, &post.notices.log)).unwrap();
    assert_eq!(step, Step::Fenced, "a reader that stands elsewhere writes nothing");
    world.verify();
}

#[test]
fn what_is_handed_on_is_what_was_sent() {
    let Some((world, mut node, mut post)) = office() else { return };
    let tails = [b"the payer's own".to_vec(), b"the payee's own".to_vec(), b"its own error".to_vec()];
    let with_tail = |mut command: Command, tail: &[u8]| {
        match &mut command {
            Command::Prepare(prepare) => prepare.tail = tail.to_vec(),
            Command::Fulfil(fulfil) => *fulfil = fulfil.clone().with_tail(tail.to_vec()),
            Command::Abort(abort) => abort.tail = tail.to_vec(),
            _ => {}
        }
        command
    };
    let prepares = [prepare(5, 1, 2, 3, FAR), prepare(6, 1, 2, 3, FAR)].map(|p| with_tail(p, &tails[0]));
    node.ask(&prepares);
    node.ask(&[with_tail(fulfil(5, 2), &tails[1]), with_tail(abort(6, 2), &tails[2])]);
    let told = std::mem::take(&mut node.notifications);
    post.receive(&mut node.store, &told);
    let due = post.deliver_all(&mut node.store);
    let facts = node.store.callback_facts(&due).unwrap();
    let mut handed: Vec<(u32, u128, Vec<u8>)> = due
        .iter()
        .zip(&facts)
        .map(|(due, facts)| {
            assert_eq!(
                (facts.payer.as_deref(), facts.payee.as_deref(), facts.endpoint.is_some()),
                (Some("first"), Some("second"), true)
            );
            let tail = match facts.origin.as_ref().unwrap() {
                Command::Prepare(found) => {
                    let Command::Prepare(asked) = &prepares[usize::from(found.id.0 == 6)] else { panic!() };
                    assert_eq!(found, asked);
                    &found.tail
                }
                Command::Fulfil(found) => {
                    assert_eq!(found.fulfilment, PREIMAGE);
                    &found.tail
                }
                Command::Abort(found) => {
                    assert_eq!(found.code, 5001);
                    &found.tail
                }
                other => panic!("{other:?}"),
            };
            (due.to.0, due.transfer.0, tail.clone())
        })
        .collect();
    handed.sort();
    let [payers, payees, error] = tails;
    assert_eq!(handed, [(1, 5, payees), (1, 6, error), (2, 5, payers.clone()), (2, 6, payers)]);
    world.verify();
}
