//! The position step of one message: the numbers that it met.
//!
//! A frame's effects say what changed, in the order of processing. The account as it stood before the sub-batch, and
//! the rows that the messages before this one left, give the running position that it was tested against.

use std::collections::HashSet;

use holdfast_domain::effects::{PositionChange, Step};
use holdfast_domain::ids::{TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::participants::Account;
use holdfast_domain::transfers::TransferState;
use holdfast_domain::view::View;
use serde::Serialize;

use super::witness::name_of;
use super::{text, text_or_null};

/// How many of those before it in the same batch are named: the last ones.
pub(crate) const NEIGHBOURS_MAX: usize = 8;

/// What a message did on a position account, or tried to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PositionStep {
    pub(crate) participant: String,
    pub(crate) account: u32,
    /// The position before the batch.
    #[serde(serialize_with = "text")]
    pub(crate) at_batch_start: Balance,
    /// The position that this message met.
    #[serde(serialize_with = "text")]
    pub(crate) before: Balance,
    /// The position that it left; `None`: it was refused and changed nothing.
    #[serde(serialize_with = "text_or_null")]
    pub(crate) after: Option<Balance>,
    /// What a prepare is tested against.
    pub(crate) limits: Option<Limits>,
    /// How many messages changed the same account before it in the same batch.
    pub(crate) earlier_in_batch: usize,
    /// The last of them, at most [`NEIGHBOURS_MAX`].
    pub(crate) earlier: Vec<Neighbour>,
    /// How many changed it afterwards.
    pub(crate) later_in_batch: usize,
}

/// The limits in force at that instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limits {
    /// What counts besides the position.
    #[serde(serialize_with = "text")]
    pub(crate) reserved: Balance,
    /// The settlement account: funds held are below zero.
    #[serde(serialize_with = "text")]
    pub(crate) settlement: Balance,
    #[serde(serialize_with = "text_or_null")]
    pub(crate) net_debit_cap: Option<Amount>,
    /// Position, reserved and the amount together.
    #[serde(serialize_with = "text")]
    pub(crate) would_use: Balance,
    pub(crate) covered: bool,
    /// `None`: not tested, since there is no cap or the cover failed first.
    pub(crate) within_cap: Option<bool>,
}

impl Limits {
    fn of(account: &Account, settlement: Balance, before: Balance, amount: Amount) -> Limits {
        let would_use = (before + account.reserved).plus(amount);
        let covered = would_use <= settlement.negated();
        let within_cap = account.net_debit_cap.filter(|_| covered).map(|cap| would_use <= cap.wide());
        let (reserved, net_debit_cap) = (account.reserved, account.net_debit_cap);
        Limits { reserved, settlement, net_debit_cap, would_use, covered, within_cap }
    }
}

/// Another message of the same account in the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Neighbour {
    #[serde(serialize_with = "text_or_null")]
    pub(crate) transfer_id: Option<TransferId>,
    #[serde(serialize_with = "text")]
    pub(crate) change: Amount,
    /// The position after it.
    #[serde(serialize_with = "text")]
    pub(crate) value: Balance,
}

/// The step of transfer `no` on `account`, which is as it stood before the sub-batch; `settlement` likewise.
/// `moved` is the place of the transfer's change of state, `met` the position that a refused one met, where that is known
/// better than from its neighbours.
pub(super) fn position_step(
    no: TransferNo,
    amount: Amount,
    account: &Account,
    settlement: Balance,
    step: &Step,
    (moved, met): (usize, Option<Balance>),
    after: &impl View,
) -> PositionStep {
    let on_account: Vec<&PositionChange> =
        step.position_changes.iter().filter(|row| row.account == account.id).collect();
    let is_prepare =
        matches!(step.state_changes[moved].state, TransferState::Reserved | TransferState::AbortedRejected);
    // A checkout may reserve and give back in one step.
    let mut own = on_account.iter().enumerate().filter(|(_, row)| row.transfer == no).map(|(at, _)| at);
    let own = if is_prepare { own.next() } else { own.next_back() };
    let (earlier, later, before) = match own {
        Some(at) => {
            let row = on_account[at];
            (&on_account[..at], on_account.len() - at - 1, row.value.minus(row.change))
        }
        // Refused: it left no row, but its state change stands between those of its neighbours.
        None => {
            let done: HashSet<TransferNo> = step.state_changes[..moved]
                .iter()
                .filter(|row| ends_position_step(row.state))
                .map(|row| row.transfer)
                .collect();
            let earlier = on_account.iter().take_while(|row| done.contains(&row.transfer)).count();
            let running = on_account[..earlier].last().map_or(account.value, |row| row.value);
            (&on_account[..earlier], on_account.len() - earlier, met.unwrap_or(running))
        }
    };
    let neighbour = |row: &&PositionChange| Neighbour {
        transfer_id: after.transfer_numbered(row.transfer).map(|transfer| transfer.id),
        change: row.change,
        value: row.value,
    };
    PositionStep {
        participant: name_of(after, account.participant),
        account: account.id.0,
        at_batch_start: account.value,
        before,
        after: own.map(|at| on_account[at].value),
        limits: is_prepare.then(|| Limits::of(account, settlement, before, amount)),
        earlier_in_batch: earlier.len(),
        earlier: earlier[earlier.len().saturating_sub(NEIGHBOURS_MAX)..].iter().map(neighbour).collect(),
        later_in_batch: later,
    }
}

/// Whether the position step writes this state, and not the steps before it.
const fn ends_position_step(state: TransferState) -> bool {
    matches!(
        state,
        TransferState::Reserved
            | TransferState::AbortedRejected
            | TransferState::Committed
            | TransferState::AbortedError
            | TransferState::ExpiredReserved
    )
}
