//! What every store must do, as functions over the trait. A backend calls [`run_all`] with a way to make an empty
//! store.

use holdfast_domain::command::{Admin, Command, Expire, Fulfil, FulfilAction, Key, Prepare};
use holdfast_domain::effects::Effects;
use holdfast_domain::ids::{AccountId, Currency, HUB, Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::Name;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_domain::{FrameInput, decide};
use sha2::{Digest, Sha256};

use crate::Store;

pub(crate) mod shop;
mod tokens;

pub(crate) const PAYER: ParticipantId = ParticipantId(1);
pub(crate) const PAYEE: ParticipantId = ParticipantId(2);
const PAYER_POSITION: AccountId = AccountId(1);
const PAYEE_POSITION: AccountId = AccountId(3);
const FUNDS: i64 = 10_000;
/// The movement that gives the payer its funds.
pub(crate) const FUNDS_IN: TransferId = TransferId(u128::MAX);

/// Runs every test of the suite.
pub fn run_all<S: Store>(empty: impl Fn() -> S) {
    an_empty_store_has_nothing(&empty());
    participants_are_found_by_number_and_name(&mut empty());
    a_transfer_is_found_by_id_and_number(&mut empty());
    holds_come_in_the_order_they_run_out(&mut empty());
    a_hold_that_ended_is_no_longer_due(&mut empty());
    sorting_what_is_due_changes_no_answer(&mut empty());
    many_transfers_keep_their_numbers(&mut empty());
    sums_are_conserved(&mut empty());
    tokens::run_all(&empty);
    shop::run_all(&empty);
}

/// Decides a frame and applies it, as the loop does.
fn frame<S: Store>(store: &mut S, time: Millis, commands: &[Command]) -> Effects {
    // Offsets rise, as in a log.
    frame_at(store, time.unsigned_abs() * 1_000_000, time, commands)
}

/// As [`frame`], at that place of the log.
pub(crate) fn frame_at<S: Store>(
    store: &mut S,
    base_offset: u64,
    time: Millis,
    commands: &[Command],
) -> Effects {
    let mut keys = Vec::new();
    commands.iter().for_each(|command| command.each_key(&mut |key| keys.push(key)));
    store.load(&mut keys.into_iter()).expect("nothing is wrong with the disk");
    let effects = decide(store, &FrameInput { base_offset, time, order: PrepareOrder::Arrival, commands });
    store.apply(&effects, time);
    store.keep_callbacks(std::iter::once(base_offset.to_le_bytes()));
    store.settle(&effects);
    effects
}

/// The transfer of that id, also if it has ended.
fn find<S: Store>(store: &mut S, id: u128) -> Option<Transfer> {
    store.load(&mut std::iter::once(Key::Transfer(TransferId(id)))).expect("nothing is wrong with the disk");
    store.transfer(TransferId(id)).cloned()
}

fn currency() -> Currency {
    "USD".parse().expect("a currency")
}

fn fulfilment(id: u128) -> [u8; 32] {
    Sha256::digest(id.to_le_bytes()).into()
}

pub(crate) fn prepare(id: u128, amount: i64, expiration: Millis) -> Command {
    let prepare = Prepare {
        source: PAYER,
        id: TransferId(id),
        payer: PAYER,
        payee: PAYEE,
        amount: Amount(amount),
        expiration,
        currency: currency(),
        condition: Sha256::digest(fulfilment(id)).into(),
        hash: [0; 32],
        tail: Vec::new(),
        funding: None,
    };
    Command::Prepare(prepare.hashed())
}

pub(crate) fn fulfil(id: u128) -> Command {
    fulfil_with(id, fulfilment(id))
}

pub(crate) fn fulfil_with(id: u128, fulfilment: [u8; 32]) -> Command {
    Command::Fulfil(Fulfil::new(PAYEE, TransferId(id), FulfilAction::Commit, fulfilment))
}

/// Two participants with that limit, the payer with funds.
pub(crate) fn opening(net_debit_cap: i64, funds: i64) -> [Command; 5] {
    let name = |text| Name::new(text).expect("a name");
    let limit = |participant| Admin::InitialPositionAndLimits {
        participant,
        currency: currency(),
        net_debit_cap: Amount(net_debit_cap),
        initial_position: Amount::ZERO,
    };
    [
        Admin::CreateParticipant { name: name("payer"), currency: currency() },
        Admin::CreateParticipant { name: name("payee"), currency: currency() },
        limit(PAYER),
        limit(PAYEE),
        Admin::FundsIn { id: FUNDS_IN, account: AccountId(2), currency: currency(), amount: Amount(funds) },
    ]
    .map(Command::Admin)
}

fn open_for_business<S: Store>(store: &mut S) {
    let effects = frame(store, 1, &opening(FUNDS, FUNDS));
    let mut outcomes = effects.all(|step| &step.outcomes);
    assert!(outcomes.all(|outcome| outcome.code.is_none()), "{effects:?}");
}

fn an_empty_store_has_nothing(store: &impl Store) {
    assert_eq!(store.next_transfer(), TransferNo(0));
    assert_eq!((store.next_participant(), store.next_account()), (ParticipantId(1), AccountId(1)));
    assert!(store.transfer(TransferId(1)).is_none() && store.transfer_numbered(TransferNo(0)).is_none());
    assert!(store.participant(HUB).is_none() && store.account(AccountId(0)).is_none());
    assert_eq!((store.open_holds(), store.next_expiration()), (0, None));
    assert!(store.due(Millis::MAX, 10).is_empty() && store.conserved_sums().is_empty());
}

fn participants_are_found_by_number_and_name(store: &mut impl Store) {
    open_for_business(store);
    let by_name = store.participant_named(Name::new("PAYER").expect("a name")).expect("found without case");
    assert_eq!(by_name.id, PAYER);
    assert_eq!(store.participant(PAYEE).map(|row| row.name.as_str()), Some("payee"));
    assert_eq!(by_name.position_account(currency()), Some(PAYER_POSITION));
    assert_eq!(store.account(PAYEE_POSITION).map(|row| row.participant), Some(PAYEE));
    assert_eq!((store.books().participants().len(), store.books().accounts().len()), (2, 4));
    assert_eq!(store.funds(FUNDS_IN).map(|row| row.amount), Some(Amount(FUNDS)));
}

fn a_transfer_is_found_by_id_and_number(store: &mut impl Store) {
    open_for_business(store);
    frame(store, 10, &[prepare(7, 100, 1_000), prepare(8, 200, 1_000)]);
    let row = find(store, 8).expect("by id");
    assert_eq!(
        (row.no, row.state, row.reserved_value.get()),
        (TransferNo(1), TransferState::Reserved, Some(Balance(300)))
    );
    assert_eq!(store.transfer_numbered(TransferNo(0)).map(|row| row.id), Some(TransferId(7)));
    assert_eq!(store.account(PAYER_POSITION).map(|row| row.value), Some(Balance(300)));
    frame(store, 20, &[fulfil(8)]);
    let row = find(store, 8).expect("by id");
    assert_eq!(
        (row.state, row.changed_at, row.final_value.get()),
        (TransferState::Committed, 20, Some(Balance(-200)))
    );
    let open =
        |from| store.open_transfers(TransferNo(from), 10).iter().map(|row| row.no.0).collect::<Vec<_>>();
    assert_eq!((open(0), open(1)), (vec![0], vec![]));
}

fn holds_come_in_the_order_they_run_out(store: &mut impl Store) {
    open_for_business(store);
    let expirations = [9_000, 3_000, 500_000, 3_000, 70];
    let prepares: Vec<Command> = (1..).zip(expirations).map(|(id, at)| prepare(id, 1, at)).collect();
    frame(store, 10, &prepares);
    let due = |before, max| store.due(before, max).into_iter().map(|no| no.0).collect::<Vec<_>>();
    assert_eq!(due(Millis::MAX, 10), [4, 1, 3, 0, 2]);
    assert_eq!(due(Millis::MAX, 2), [4, 1]);
    assert_eq!(due(3_000, 10), [4], "a hold is due after its expiration, not at it");
    assert_eq!(due(3_001, 10), [4, 1, 3]);
    let page: Vec<u64> =
        store.holds(Millis::MAX, Some((3_000, TransferNo(1))), 2).iter().map(|row| row.no.0).collect();
    assert_eq!(page, [3, 0]);
    assert_eq!(store.open_holds(), 5);
    assert!(store.next_expiration().is_some_and(|at| at <= 70));
}

fn a_hold_that_ended_is_no_longer_due(store: &mut impl Store) {
    open_for_business(store);
    frame(store, 10, &[prepare(1, 5, 100), prepare(2, 5, 100), prepare(3, 5, 100)]);
    frame(store, 20, &[fulfil(2)]);
    assert_eq!(store.due(101, 10), [TransferNo(0), TransferNo(2)]);
    let effects = frame(store, 101, &[Command::Expire(Expire { holds_max: 1 })]);
    assert_eq!(effects.outcome(0).subject.ended(), 1);
    assert_eq!(find(store, 1).map(|row| row.state), Some(TransferState::ExpiredReserved));
    frame(store, 102, &[Command::Expire(Expire { holds_max: 10 })]);
    assert_eq!((store.open_holds(), store.next_expiration()), (0, None));
    assert_eq!(store.account(PAYER_POSITION).map(|row| row.value), Some(Balance(5)));
}

fn sorting_what_is_due_changes_no_answer(store: &mut impl Store) {
    open_for_business(store);
    let prepares: Vec<Command> =
        (1..40_i32).map(|id| prepare(id.unsigned_abs().into(), 1, i64::from(5_000 - 70 * id))).collect();
    frame(store, 10, &prepares);
    let before: Vec<_> = store.due(4_000, 100);
    store.sort_due(3_500);
    assert_eq!(store.due(4_000, 100), before);
    frame(store, 20, &[prepare(100, 1, 3_000)]);
    store.sort_due(3_500);
    assert!(store.due(4_000, 100).contains(&TransferNo(39)), "a late hold takes its place");
    assert_eq!(store.next_expiration(), Some(5_000 - 70 * 39));
}

fn many_transfers_keep_their_numbers(store: &mut impl Store) {
    open_for_business(store);
    for chunk in 0..10_u128 {
        let prepares: Vec<Command> =
            (0..1_000).map(|id| prepare(1 + chunk * 1_000 + id, 1, 1_000_000)).collect();
        frame(store, 10, &prepares);
    }
    for id in [1_u128, 4_096, 4_097, 9_999, 10_000] {
        let row = find(store, id).expect("every id is found");
        assert_eq!(u128::from(row.no.0) + 1, id);
    }
    assert!(store.transfer(TransferId(10_001)).is_none());
}

fn sums_are_conserved(store: &mut impl Store) {
    open_for_business(store);
    let opening = vec![(currency(), Balance(-i128::from(FUNDS)))];
    assert_eq!(store.conserved_sums(), opening);
    frame(store, 10, &[prepare(1, 40, 100), prepare(2, 50, 100), prepare(3, FUNDS, 100)]);
    frame(store, 20, &[fulfil(1)]);
    assert_eq!(store.conserved_sums(), opening);
    frame(store, 101, &[Command::Expire(Expire { holds_max: 10 })]);
    assert_eq!(store.conserved_sums(), opening);
    let values: Vec<i128> = store.books().accounts().iter().map(|row| row.value.0).collect();
    assert_eq!(values, [40, -i128::from(FUNDS), -40, 0]);
}
