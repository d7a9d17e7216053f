//! The bin processor against a model that is as slow and plain as possible: it looks for the next message again
//! and again, handles one at a time, and shares no code with the processor.

use std::collections::BTreeMap;

use holdfast_domain::effects::{DeadLetterReason, Party, Step};
use holdfast_domain::ids::{AccountId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::positions::{
    Action, Message, MessageResult, PositionAccount, PositionAccounts, PrepareOrder, process,
};
use holdfast_domain::transfers::{ErrorInformation, TransferState};
use proptest::prelude::*;

struct Accounts(BTreeMap<u32, PositionAccount>);

impl PositionAccounts for Accounts {
    fn position_account(&self, id: AccountId) -> Option<PositionAccount> {
        self.0.get(&id.0).copied()
    }
}

/// A batch and the accounts it meets.
#[derive(Debug, Clone)]
struct Batch {
    accounts: BTreeMap<u32, PositionAccount>,
    order: PrepareOrder,
    messages: Vec<Message>,
}

/// Everything that a batch does, in plain numbers and texts so that the model needs no types of the domain.
#[derive(Debug, Default, PartialEq, Eq)]
struct Happened {
    results: Vec<(String, Option<u16>, i128)>,
    positions: BTreeMap<u32, i128>,
    state_changes: Vec<(u64, String, Option<u16>)>,
    position_changes: Vec<(u32, u64, i64, i128)>,
    notifications: Vec<(u64, &'static str, Option<u16>)>,
    dead_letters: Vec<(u64, &'static str, String)>,
}

/// Who is told, and with which code.
type Told = (&'static str, Option<u16>);

fn model(batch: &Batch) -> Happened {
    let mut happened = Happened::default();
    for (account, row) in &batch.accounts {
        happened.positions.insert(*account, row.value.0);
    }
    // The state of each transfer at load is what its first message says.
    let mut states: BTreeMap<u64, String> = BTreeMap::new();
    for message in &batch.messages {
        let state = message.state.name().to_owned();
        states.entry(message.transfer.0).or_insert(state);
    }
    let mut results: BTreeMap<usize, (String, Option<u16>, i128)> = BTreeMap::new();
    let is_repeat = |index: usize| {
        batch.messages[..index].iter().any(|earlier| {
            earlier.transfer == batch.messages[index].transfer
                && earlier.action == batch.messages[index].action
        })
    };
    // Whoever comes first by account, then by action, then by amount where that counts, then by arrival.
    while let Some(index) = (0..batch.messages.len())
        .filter(|index| !results.contains_key(index) && !is_repeat(*index))
        .min_by_key(|index| {
            let message = &batch.messages[*index];
            let step = match message.action {
                Action::Commit => 1,
                Action::Reserve => 2,
                Action::Abort => 3,
                Action::TimeoutReserved => 4,
                Action::Prepare => 5,
            };
            let by_amount = batch.order == PrepareOrder::Smallest && step == 5;
            (message.account.0, step, if by_amount { message.amount.0 } else { 0 }, *index)
        })
    {
        let message = batch.messages[index];
        let result = handle(batch, &message, &mut states, &mut happened);
        results.insert(index, result);
    }
    for (index, message) in batch.messages.iter().enumerate() {
        let first = batch
            .messages
            .iter()
            .position(|first| first.transfer == message.transfer && first.action == message.action)
            .unwrap();
        let result = results[&first].clone();
        assert!(index == first || is_repeat(index));
        happened.results.push(result);
    }
    happened
}

/// One message, against the positions and states as they stand now.
fn handle(
    batch: &Batch,
    message: &Message,
    states: &mut BTreeMap<u64, String>,
    happened: &mut Happened,
) -> (String, Option<u16>, i128) {
    let (account, transfer, amount) = (message.account.0, message.transfer.0, i128::from(message.amount.0));
    let state = states[&transfer].clone();
    let Some(limits) = batch.accounts.get(&account) else {
        let reason = format!("no account {account}");
        happened.dead_letters.push((transfer, message.action.name(), reason));
        return (state, Some(2001), 0);
    };
    let position = happened.positions[&account];
    let (new_state, code, change, told): (&str, Option<u16>, i128, Vec<Told>) =
        match (message.action, state.as_str()) {
            (Action::Commit, "RECEIVED_FULFIL") => ("COMMITTED", None, -amount, vec![("payer", None)]),
            (Action::Reserve, "RECEIVED_FULFIL") => {
                ("COMMITTED", None, -amount, vec![("payer", None), ("payee", None)])
            }
            (Action::Abort, "RECEIVED_ERROR") => ("ABORTED_ERROR", None, -amount, vec![("payer", None)]),
            (Action::TimeoutReserved, "RESERVED_TIMEOUT") => {
                let both = vec![("payer", Some(3303)), ("payee", Some(3303))];
                ("EXPIRED_RESERVED", Some(3303), -amount, both)
            }
            (Action::Prepare, "RECEIVED_PREPARE") => {
                let cover_left = -limits.settlement.0 - (position + limits.reserved.0);
                let cap_left =
                    limits.net_debit_cap.map(|cap| i128::from(cap.0) - (position + limits.reserved.0));
                if cover_left < amount {
                    ("ABORTED_REJECTED", Some(4001), 0, vec![("payer", Some(4001))])
                } else if cap_left.is_some_and(|left| left < amount) {
                    ("ABORTED_REJECTED", Some(4200), 0, vec![("payer", Some(4200))])
                } else {
                    ("RESERVED", None, amount, vec![("payee", None)])
                }
            }
            (Action::Commit | Action::Reserve, _) => {
                happened.notifications.push((transfer, "payee", Some(2001)));
                return (state, Some(2001), position);
            }
            (Action::Prepare, _) => {
                happened.notifications.push((transfer, "payer", Some(2001)));
                return (state, Some(2001), position);
            }
            (Action::Abort | Action::TimeoutReserved, _) => {
                let reason = format!("in {state}");
                happened.dead_letters.push((transfer, message.action.name(), reason));
                return (state, Some(2001), position);
            }
        };
    let position = position + change;
    happened.positions.insert(account, position);
    states.insert(transfer, new_state.to_owned());
    happened.state_changes.push((transfer, new_state.to_owned(), code));
    if change != 0 {
        happened.position_changes.push((account, transfer, i64::try_from(change).unwrap(), position));
    }
    for (to, code) in told {
        happened.notifications.push((transfer, to, code));
    }
    (new_state.to_owned(), code, position)
}

/// What the processor did, in the terms of the model.
fn processed(batch: &Batch) -> (Happened, Step) {
    let mut effects = Step::default();
    let accounts = Accounts(batch.accounts.clone());
    let results = process(&accounts, batch.order, &batch.messages, &mut effects);
    let mut happened = Happened::default();
    let code_of = |error: Option<ErrorInformation>| error.map(|(code, _)| code);
    let number = |code: Option<holdfast_domain::transfers::Code>| code.map(|code| code.number());
    for MessageResult { state, error, value, .. } in results {
        happened.results.push((state.name().to_owned(), number(code_of(error)), value.0));
    }
    happened.positions = batch.accounts.iter().map(|(account, row)| (*account, row.value.0)).collect();
    for row in &effects.position_changes {
        happened.positions.insert(row.account.0, row.value.0);
        happened.position_changes.push((row.account.0, row.transfer.0, row.change.0, row.value.0));
    }
    for row in &effects.state_changes {
        happened.state_changes.push((row.transfer.0, row.state.name().to_owned(), number(row.code)));
    }
    for row in &effects.notifications {
        let to = if row.to == Party::Payer { "payer" } else { "payee" };
        happened.notifications.push((row.transfer.0, to, number(code_of(row.error))));
    }
    for row in &effects.dead_letters {
        let reason = match row.reason {
            DeadLetterReason::UnknownAccount(account) => format!("no account {}", account.0),
            DeadLetterReason::WrongState(state) => format!("in {state}"),
        };
        happened.dead_letters.push((row.transfer.0, row.action.name(), reason));
    }
    (happened, effects)
}

fn account() -> impl Strategy<Value = PositionAccount> {
    let cap = prop_oneof![1 => Just(None), 4 => (0..30_i64).prop_map(|cap| Some(Amount(cap)))];
    (-15..20_i128, 0..5_i128, -35..3_i128, cap).prop_map(|(value, reserved, settlement, net_debit_cap)| {
        PositionAccount {
            value: Balance(value),
            reserved: Balance(reserved),
            settlement: Balance(settlement),
            net_debit_cap,
            alarm_percentage: 100,
        }
    })
}

fn message() -> impl Strategy<Value = Message> {
    let action = prop_oneof![
        5 => Just(Action::Prepare),
        1 => Just(Action::Commit),
        1 => Just(Action::Reserve),
        1 => Just(Action::Abort),
        1 => Just(Action::TimeoutReserved),
    ];
    let some_state = proptest::sample::select(TransferState::ALL.to_vec());
    (action, 1..5_u32, 0..12_u64, 1..12_i64, some_state, 0..6_u8).prop_map(
        |(action, account, transfer, amount, some_state, fits)| {
            let fitting = match action {
                Action::Prepare => TransferState::ReceivedPrepare,
                Action::Commit | Action::Reserve => TransferState::ReceivedFulfil,
                Action::Abort => TransferState::ReceivedError,
                Action::TimeoutReserved => TransferState::ReservedTimeout,
            };
            Message {
                account: AccountId(account),
                transfer: TransferNo(transfer),
                action,
                amount: Amount(amount),
                state: if fits > 0 { fitting } else { some_state },
                cause: 0,
                completion: None,
                error: None,
            }
        },
    )
}

/// Accounts 1 to 3 at most; account 4 is never there.
fn batch() -> impl Strategy<Value = Batch> {
    let accounts = proptest::collection::btree_map(1..4_u32, account(), 0..=3);
    let order = prop_oneof![Just(PrepareOrder::Arrival), Just(PrepareOrder::Smallest)];
    (accounts, order, proptest::collection::vec(message(), 0..25))
        .prop_map(|(accounts, order, messages)| Batch { accounts, order, messages })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_processor_does_what_the_model_does(batch in batch()) {
        prop_assert_eq!(processed(&batch).0, model(&batch));
    }

    #[test]
    fn no_accepted_prepare_passes_the_limits(batch in batch()) {
        for row in processed(&batch).1.position_changes.iter().filter(|row| row.change > Amount::ZERO) {
            let limits = batch.accounts[&row.account.0];
            let used = row.value.0 + limits.reserved.0;
            prop_assert!(used <= -limits.settlement.0, "{:?} passes the cover", row);
            prop_assert!(limits.net_debit_cap.is_none_or(|cap| used <= i128::from(cap.0)), "{:?} passes the cap", row);
        }
    }

    #[test]
    fn every_running_value_follows_from_the_one_before(batch in batch()) {
        let (happened, effects) = processed(&batch);
        let mut values: BTreeMap<u32, i128> =
            batch.accounts.iter().map(|(account, row)| (*account, row.value.0)).collect();
        let mut moves = BTreeMap::new();
        for row in &effects.position_changes {
            let value = values.get_mut(&row.account.0).unwrap();
            *value += i128::from(row.change.0);
            prop_assert_eq!(*value, row.value.0);
            *moves.entry(row.transfer).or_insert(0) += 1;
        }
        prop_assert_eq!(values, happened.positions);
        prop_assert!(moves.values().all(|count| *count == 1), "a transfer moves a position once: {:?}", moves);
    }

    #[test]
    fn states_move_only_as_they_may(batch in batch()) {
        let mut states: BTreeMap<TransferNo, TransferState> = BTreeMap::new();
        for message in &batch.messages {
            states.entry(message.transfer).or_insert(message.state);
        }
        for row in &processed(&batch).1.state_changes {
            let before = states.insert(row.transfer, row.state);
            prop_assert!(row.state.may_follow(before), "{:?} after {:?}", row, before);
        }
    }
}
