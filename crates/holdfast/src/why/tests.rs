//! Stories of every kind of end, as data and as sentences.

use holdfast_domain::command::{
    Abort, Admin, Command, Expire, Fulfil, FulfilAction, Lookup, Prepare, SetEndpoint,
};
use holdfast_domain::ids::{AccountId, Currency, Millis, ParticipantId, TransferId};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::Name;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::shop::{
    ByTransfers, Charging, CheckoutOrder, Said, Secret, ShopCommand, Side, Sides, TrNum, TryKey, Whole,
};
use holdfast_domain::view::Transfers;
use holdfast_hub::Core;
use holdfast_store::MemoryStore;
use sha2::{Digest, Sha256};

use super::{Because, Difference, Event, Story, Witness};

const PAYER: ParticipantId = ParticipantId(1);
const PAYEE: ParticipantId = ParticipantId(2);
const THIRD: ParticipantId = ParticipantId(3);
const START: Millis = 1_794_735_758_535;
const PREIMAGE: [u8; 32] = [7; 32];

/// A hub without a disk: payer, payee and third, each with funds and a cap.
struct World {
    core: Core<MemoryStore>,
    witness: Witness,
    now: Millis,
}

fn usd() -> Currency {
    "USD".parse().unwrap()
}

fn units(units: i64) -> Amount {
    Amount::whole(units).unwrap()
}

fn balance(units_of: i64) -> Balance {
    units(units_of).wide()
}

impl World {
    fn new(watched: u128, cap: i64, funds: i64) -> World {
        let mut world = World {
            core: Core::new(MemoryStore::new(0)),
            witness: Witness::of(TransferId(watched)),
            now: START,
        };
        for (number, name) in [(1, "payer"), (2, "payee"), (3, "third")] {
            let participant = ParticipantId(number);
            world.frame(&[Command::Admin(Admin::CreateParticipant {
                name: Name::new(name).unwrap(),
                currency: usd(),
            })]);
            world.frame(&[
                Command::Admin(Admin::InitialPositionAndLimits {
                    participant,
                    currency: usd(),
                    net_debit_cap: units(cap),
                    initial_position: Amount::ZERO,
                }),
                Command::Admin(Admin::FundsIn {
                    id: TransferId(u128::from(number) << 100),
                    account: AccountId(2 * number),
                    currency: usd(),
                    amount: units(funds),
                }),
            ]);
        }
        world
    }

    fn frame(&mut self, commands: &[Command]) {
        let count = u32::try_from(commands.len()).unwrap();
        let header = self.core.next_header(count, self.now, PrepareOrder::Arrival);
        let effects = self.core.advance(&header, commands, std::iter::empty());
        self.witness.frame(&header, commands, &effects, &self.core);
    }

    fn story(self) -> Story {
        self.witness.tell(&self.core)
    }

    fn prepare(&self, id: u128, amount: i64) -> Command {
        let prepare = Prepare {
            source: PAYER,
            id: TransferId(id),
            payer: PAYER,
            payee: PAYEE,
            amount: units(amount),
            expiration: START + 30_000,
            currency: usd(),
            condition: Sha256::digest(PREIMAGE).into(),
            hash: [0; 32],
            tail: Vec::new(),
            funding: None,
        };
        Command::Prepare(prepare.hashed())
    }
}

fn fulfil(source: ParticipantId, id: u128, preimage: [u8; 32], action: FulfilAction) -> Command {
    Command::Fulfil(Fulfil::new(source, TransferId(id), action, preimage))
}

fn commit(id: u128) -> Command {
    fulfil(PAYEE, id, PREIMAGE, FulfilAction::Commit)
}

fn reasons(story: &Story) -> Vec<(Option<&'static str>, Option<u16>, &Because)> {
    story.events.iter().map(|event| (event.state, event.error_code, &event.because)).collect()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

fn id(number: u128) -> String {
    TransferId(number).to_string()
}

fn last(story: &Story) -> &Event {
    story.events.last().expect("something happened")
}

#[test]
fn the_third_of_three_fives_in_a_batch_is_over_a_cap_of_ten() {
    let mut world = World::new(3, 10, 1_000);
    let offset = world.core.end();
    let batch = [1, 2, 3, 4].map(|id| world.prepare(id, if id == 4 { 1 } else { 5 }));
    world.frame(&batch);
    let story = world.story();
    let event = last(&story);
    assert_eq!((event.offset, event.frame.records), (offset + 2, 4));
    assert_eq!((event.state, event.error_code), (Some("ABORTED_REJECTED"), Some(4200)));
    assert_eq!(event.because, Because::OverCap);
    let step = event.position.as_ref().unwrap();
    assert_eq!((step.at_batch_start, step.before, step.after), (balance(0), balance(10), None));
    let neighbours: Vec<_> = step.earlier.iter().map(|one| (one.transfer_id, one.value)).collect();
    assert_eq!(neighbours, [(Some(TransferId(1)), balance(5)), (Some(TransferId(2)), balance(10))]);
    let limits = step.limits.unwrap();
    assert_eq!((limits.covered, limits.within_cap), (true, Some(false)));
    assert_eq!((limits.settlement, limits.would_use), (balance(-1_000), balance(15)));
    assert_eq!(
        event.sentence(),
        format!(
            "prepare of 5 USD by payer for payee → ABORTED_REJECTED 4200: the cap is 10, the position was 10 (after {} \
             and {} in the same batch), 10 + 5 > 10.",
            id(1),
            id(2)
        )
    );
    let text = story.to_string();
    let begins = format!("2026-11-15T09:42:38.535Z offset {}: prepare", offset + 2);
    says(&text, &[&begins, "cover 1000; cap 10", "It ended as ABORTED_REJECTED"]);
}

#[test]
fn a_refusal_between_others_counts_only_those_before_it() {
    let mut world = World::new(2, 10, 1_000);
    let batch = [world.prepare(1, 4), world.prepare(2, 7), world.prepare(3, 6)];
    world.frame(&batch);
    let story = world.story();
    let step = last(&story).position.as_ref().unwrap();
    assert_eq!((step.before, step.earlier_in_batch, step.later_in_batch), (balance(4), 1, 1));
}

#[test]
fn over_the_cover_is_told_with_the_funds() {
    let mut world = World::new(1, 1_000, 8);
    world.frame(&[world.prepare(1, 9)]);
    let story = world.story();
    assert_eq!(last(&story).because, Because::OverCover);
    let sentence = last(&story).sentence();
    assert!(sentence.ends_with("4001: the cover is 8, the position was 0, 0 + 9 > 8."), "{sentence}");
}

#[test]
fn a_credit_of_the_same_batch_goes_first() {
    // The payer is paid 5 in the very batch in which it prepares; its fulfil is processed before the prepare.
    let mut world = World::new(9, 10, 1_000);
    world.frame(&[world.prepare(1, 5), world.prepare(2, 5)]);
    let mut back = match world.prepare(3, 5) {
        Command::Prepare(prepare) => prepare,
        _ => unreachable!(),
    };
    (back.source, back.payer, back.payee) = (PAYEE, PAYEE, PAYER);
    world.frame(&[Command::Prepare(back.hashed())]);
    world.frame(&[world.prepare(9, 5), fulfil(PAYER, 3, PREIMAGE, FulfilAction::Commit)]);
    let story = world.story();
    let event = last(&story);
    assert_eq!((event.state, &event.because), (Some("RESERVED"), &Because::WithinLimits));
    let step = event.position.as_ref().unwrap();
    assert_eq!((step.at_batch_start, step.before, step.after), (balance(10), balance(5), Some(balance(10))));
    assert_eq!(step.earlier[0].change, units(-5));
    says(&event.sentence(), &["5 + 5 = 10 is within the cover of 1000 and the cap of 10"]);
}

#[test]
fn a_payment_from_prepare_to_commit_with_who_was_told() {
    let mut world = World::new(1, 100, 100);
    for (participant, kind) in
        [(PAYEE, "FSPIOP_CALLBACK_URL_TRANSFER_POST"), (PAYER, "FSPIOP_CALLBACK_URL_TRANSFER_PUT")]
    {
        let url = "http://there/transfers".to_owned();
        world.frame(&[Command::SetEndpoint(SetEndpoint::new(participant, kind.to_owned(), url).unwrap())]);
    }
    world.frame(&[world.prepare(1, 5)]);
    world.now += 200;
    world.frame(&[commit(1)]);
    world.frame(&[commit(1), Command::Lookup(Lookup { source: THIRD, id: TransferId(1) })]);
    let story = world.story();
    assert_eq!(
        reasons(&story),
        [
            (Some("RESERVED"), None, &Because::WithinLimits),
            (Some("COMMITTED"), None, &Because::FulfilmentFits { before_expiration_ms: 29_800 }),
            (Some("COMMITTED"), None, &Because::Repeat),
            (None, Some(3000), &Because::NotAParty),
        ]
    );
    let told = &story.events[0].told[0];
    assert_eq!((told.to.as_str(), told.call, told.forwarded), ("payee", "POST /transfers", true));
    assert_eq!((told.endpoint.as_deref(), told.callback), (Some("http://there/transfers"), Some(0)));
    assert_eq!(story.events[1].told[0].to, "payer");
    let told = story.events[2].told[0].sentence();
    says(&told, &["had registered no FSPIOP_CALLBACK_URL_TRANSFER_PUT"]);
    let sentence = story.events[1].sentence();
    says(&sentence, &["29.8 s before the expiration", "the position of payee was 0, 0 - 5 = -5."]);
    let ended = "It ended as COMMITTED at 2026-11-15T09:42:38.735Z, 200 ms after its prepare.";
    says(&story.to_string(), &[ended]);
}

#[test]
fn what_the_payee_gives_up_goes_back_to_the_payer() {
    let mut world = World::new(1, 100, 100);
    world.frame(&[world.prepare(1, 5)]);
    let abort = Command::Abort(Abort::new(PAYEE, TransferId(1), 5104, Vec::new()));
    world.frame(std::slice::from_ref(&abort));
    world.frame(&[abort, Command::Abort(Abort::new(PAYEE, TransferId(1), 5105, Vec::new()))]);
    let story = world.story();
    assert_eq!(
        reasons(&story)[1..],
        [
            (Some("ABORTED_ERROR"), Some(5104), &Because::PayeeGaveUp),
            (Some("ABORTED_ERROR"), Some(5104), &Because::Repeat),
            (Some("ABORTED_ERROR"), Some(3106), &Because::OtherCompletion),
        ]
    );
    let sentence = story.events[1].sentence();
    says(&sentence, &["the payee gave it up; the position of payer was 5, 5 - 5 = 0."]);
}

#[test]
fn a_wrong_preimage_aborts_and_a_wrong_sender_does_not() {
    let mut world = World::new(1, 100, 100);
    world.frame(&[world.prepare(1, 5)]);
    world.frame(&[fulfil(THIRD, 1, PREIMAGE, FulfilAction::Commit)]);
    world.frame(&[fulfil(PAYEE, 1, [9; 32], FulfilAction::Commit)]);
    world.frame(&[commit(1)]);
    let story = world.story();
    assert_eq!(
        reasons(&story)[1..],
        [
            (Some("RESERVED"), Some(3100), &Because::WrongSender { only: "payee".to_owned() }),
            (Some("ABORTED_ERROR"), Some(3100), &Because::FulfilmentWrong),
            (Some("ABORTED_ERROR"), Some(3106), &Because::OtherCompletion),
        ]
    );
}

#[test]
fn what_runs_out_is_ended_by_the_expiry_and_refuses_a_late_fulfil() {
    let mut world = World::new(1, 100, 100);
    world.frame(&[world.prepare(1, 5), world.prepare(2, 5)]);
    world.now = START + 30_000;
    world.frame(&[commit(1)]);
    world.now += 12;
    world.frame(&[Command::Expire(Expire { holds_max: 10 })]);
    world.frame(&[fulfil(PAYEE, 1, PREIMAGE, FulfilAction::Reserve)]);
    let story = world.story();
    assert_eq!(
        reasons(&story)[1..],
        [
            (Some("RESERVED"), Some(3303), &Because::TooLate { late_ms: 0 }),
            (Some("EXPIRED_RESERVED"), Some(3303), &Because::RanOut { late_ms: 12 }),
            (Some("EXPIRED_RESERVED"), Some(3100), &Because::NotReserved),
        ]
    );
    let expiry = &story.events[2];
    assert_eq!(expiry.told.iter().map(|told| told.to.as_str()).collect::<Vec<_>>(), ["payer", "payee"]);
    let began = "expiry → EXPIRED_RESERVED 3303: it had run out 12 ms before";
    says(&expiry.sentence(), &[began, "5 = "]);
}

#[test]
fn invalid_modified_and_unknown() {
    let mut world = World::new(1, 100, 100);
    world.frame(&[commit(1)]);
    world.now = START + 30_000;
    world.frame(&[world.prepare(1, 5)]);
    world.frame(&[world.prepare(1, 6)]);
    let story = world.story();
    let difference = Difference { field: "amount", first: "5".to_owned(), here: "6".to_owned() };
    assert_eq!(
        reasons(&story),
        [
            (None, Some(3208), &Because::UnknownTransfer),
            (
                Some("INVALID"),
                Some(3100),
                &Because::RuleBroken { rule: "the expiration is already in the past" }
            ),
            (Some("INVALID"), Some(3106), &Because::Modified { differences: vec![difference] }),
        ]
    );
    assert!(story.events.iter().all(|event| event.position.is_none()));
    says(&last(&story).sentence(), &["amount was 5 and is 6 here"]);
}

#[test]
fn a_changed_limit_is_the_one_in_force_at_that_instant() {
    let mut world = World::new(2, 10, 1_000);
    let lower = Command::Admin(Admin::SetLimit {
        participant: PAYER,
        currency: usd(),
        net_debit_cap: units(6),
        alarm_percentage: 10,
    });
    let batch = [world.prepare(1, 5), lower, world.prepare(2, 5)];
    world.frame(&batch);
    let story = world.story();
    let event = last(&story);
    assert_eq!((event.frame.sub_batch, event.frame.sub_batches), (2, 3));
    let step = event.position.as_ref().unwrap();
    assert_eq!((step.before, step.limits.unwrap().net_debit_cap), (balance(5), Some(units(6))));
    says(&event.sentence(), &["the cap is 6, the position was 5, 5 + 5 > 6"]);
    assert!(event.details().iter().any(|line| line.contains("part 3 of 3")), "{:?}", event.details());
}

#[test]
fn an_open_one_says_who_may_end_it_and_the_data_is_json() {
    let mut world = World::new(1, 100, 100);
    world.frame(&[world.prepare(1, 5)]);
    let story = world.story();
    let open = "It is RESERVED and open: payee may end it until 2026-11-15T09:43:08.535Z.";
    says(&story.to_string(), &[open]);
    let json = serde_json::to_value(&story).unwrap();
    assert_eq!(json["transfer"]["amount"], "5");
    assert_eq!(json["events"][0]["action"], "prepare");
    assert_eq!(json["events"][0]["because"], "withinLimits");
    assert_eq!(json["events"][0]["position"]["limits"]["netDebitCap"], "100");
    assert_eq!(json["events"][0]["told"][0]["to"], "payee");
}

/// A shop that charges positions: `payee` is paid, an order of `payer` costs 5, and there are so many of its item.
fn checkouts(watched: u128, cap: i64, stock: u64, outside: Sides) -> World {
    let mut world = World::new(watched, cap, 100);
    let number = |number| Whole::new(number).unwrap();
    let (order, item): (holdfast_domain::shop::OrderId, holdfast_domain::shop::ItemId) =
        ("o1".parse().unwrap(), "i1".parse().unwrap());
    let by = ByTransfers { payee: PAYEE, currency: usd(), unit: units(1), secret: Secret([9; 32]) };
    for command in [
        ShopCommand::SetCharging { charging: Charging::Transfers(by) },
        ShopCommand::SetOutside { outside },
        ShopCommand::CreateItem { id: item.clone(), stock: number(stock), price: number(5) },
        ShopCommand::CreateOrder { id: order.clone(), user: "payer".parse().unwrap() },
        ShopCommand::AddItem { order: order.clone(), item, quantity: number(1) },
        ShopCommand::Checkout(CheckoutOrder { order, deadline_ms: 1_000, key: None, chosen: None }),
    ] {
        world.frame(&[Command::Shop(Box::new(command))]);
    }
    world
}

/// The same world with an eye on the transfer that its checkout made, which is known only then.
fn paid_for(cap: i64, stock: u64, outside: Sides) -> World {
    let made = checkouts(0, cap, stock, outside);
    let made = made.core.store().transfer_numbered(holdfast_domain::ids::TransferNo(0)).unwrap().id;
    checkouts(made.0, cap, stock, outside)
}

#[test]
fn a_checkout_that_pays_tells_both_positions() {
    let story = paid_for(6, 1, Sides::NONE).story();
    assert_eq!(
        reasons(&story),
        [(Some("RESERVED"), None, &Because::WithinLimits), (Some("COMMITTED"), None, &Because::OrderPaid)]
    );
    let told: Vec<String> = story.events.iter().map(Event::sentence).collect();
    assert_eq!(
        told,
        [
            "checkout of order o1, try 1 → RESERVED: the position was 0, 0 + 5 = 5 is within the cover of 100 and the cap of 6.",
            "checkout of order o1, try 1 → COMMITTED: both sides have taken, so it is fulfilled and the order is paid; the \
             position of payee was 0, 0 - 5 = -5.",
        ]
    );
    let json = serde_json::to_value(&story).unwrap();
    assert_eq!((&json["events"][0]["order"], &json["events"][0]["tr"]), (&"o1".into(), &1.into()));
}

#[test]
fn a_checkout_that_is_refused_tells_the_limit_that_refused_it() {
    let story = paid_for(4, 1, Sides::NONE).story();
    assert_eq!(reasons(&story), [(Some("ABORTED_REJECTED"), Some(4200), &Because::OverCap)]);
    let event = last(&story);
    says(&event.sentence(), &["order o1, try 1", "the cap is 4, the position was 0, 0 + 5 > 4"]);
    assert!(event.details().iter().any(|line| line.starts_with("Limits at that instant")), "{event:?}");
}

#[test]
fn a_checkout_that_gives_back_says_why() {
    let story = paid_for(100, 0, Sides::NONE).story();
    let failed = Because::OrderFailed { order: None, tr: None, why: Some("stock") };
    assert_eq!(reasons(&story)[1], (Some("ABORTED_ERROR"), Some(5103), &failed));
    says(&last(&story).sentence(), &["failed (the stock was refused)", "5 - 5 = 0"]);
}

#[test]
fn a_checkout_that_waits_is_ended_by_an_answer_or_by_its_deadline() {
    let outside = Sides { stock: true, ..Sides::NONE };
    let mut world = paid_for(100, 0, outside);
    let key = TryKey { order_id: "o1".parse().unwrap(), tr_num: TrNum::try_from(1).unwrap() };
    world.now += 500;
    let answer = ShopCommand::Answer { key, side: Side::Stock, said: Said::Taken };
    world.frame(&[Command::Shop(Box::new(answer))]);
    let said = last(&world.story()).sentence();
    assert!(said.starts_with("answer of the stock side about order o1, try 1 → COMMITTED"), "{said}");

    let mut world = paid_for(100, 0, outside);
    world.now += 1_001;
    world.frame(&[Command::Expire(Expire { holds_max: 100 })]);
    let said = last(&world.story()).sentence();
    assert!(
        said.starts_with("expiry → ABORTED_ERROR 5103: try 1 of order o1 failed (its deadline passed), and what it reserved"),
        "{said}"
    );
}
