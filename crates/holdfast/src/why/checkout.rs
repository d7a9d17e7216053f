//! A transfer that pays for an order. A command of the shop moves it, and may move it twice: a checkout with its stock inside
//! reserves and settles, or reserves and gives back, in one record.

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::effects::{Outcome, StateChange, Step};
use holdfast_domain::ids::TransferNo;
use holdfast_domain::shop::{CheckoutAnswer, ShopCommand, ShopOutcome, Side};
use holdfast_domain::transfers::{Reason, TransferState};

use super::{Asked, Because};

/// What the command asks of which order.
pub(super) fn asked(command: &ShopCommand, outcome: &Outcome) -> Asked {
    let (what, order) = match command {
        ShopCommand::Checkout(wanted) => ("checkout of", Some(&wanted.order)),
        ShopCommand::Answer { key, side: Side::Pay, .. } => {
            ("answer of the payment side about", Some(&key.order_id))
        }
        ShopCommand::Answer { key, side: Side::Stock, .. } => {
            ("answer of the stock side about", Some(&key.order_id))
        }
        ShopCommand::Cancel { order } => ("cancel of", Some(order)),
        ShopCommand::Retry { order, .. } => ("retry of", Some(order)),
        _ => ("command about", None),
    };
    let order = order.map_or_else(|| "the shop".to_owned(), |order| order.as_str().to_owned());
    Asked::Checkout { what, order, tr: answer(outcome).map(|answer| answer.tr().get()) }
}

fn answer(outcome: &Outcome) -> Option<CheckoutAnswer> {
    match outcome.shop.as_deref()? {
        ShopOutcome::Checkout(answer) | ShopOutcome::Heard { now: answer, .. } => Some(*answer),
        _ => None,
    }
}

/// Where the transfer came to in that step, by place among the step's changes. States on the way to these are left out.
pub(super) fn moves<'s>(
    no: TransferNo,
    step: &'s Step,
) -> impl Iterator<Item = (usize, &'s StateChange)> + use<'s> {
    let ends = |state| {
        matches!(
            state,
            TransferState::Reserved
                | TransferState::AbortedRejected
                | TransferState::Invalid
                | TransferState::Committed
                | TransferState::AbortedError
                | TransferState::ExpiredReserved
        )
    };
    let rows = step.state_changes.iter().enumerate();
    rows.filter(move |(_, row)| row.transfer == no && ends(row.state))
}

/// Why it came there, by the same rules as an ordinary prepare where it is one.
pub(super) fn because(row: &StateChange, outcome: &Outcome) -> Because {
    let code = row.code.and_then(|code| ErrorCode::from_number(code.number()));
    match (row.state, code) {
        (TransferState::Reserved, _) => Because::WithinLimits,
        (TransferState::AbortedRejected, Some(ErrorCode::PayerInsufficientLiquidity)) => Because::OverCover,
        (TransferState::AbortedRejected, Some(ErrorCode::PayerLimitError)) => Because::OverCap,
        (TransferState::Invalid, _) => {
            Because::RuleBroken { rule: row.reason.map_or("a rule was broken", Reason::text) }
        }
        (TransferState::Committed, _) => Because::OrderPaid,
        (TransferState::AbortedError, _) => {
            let why = match answer(outcome) {
                Some(CheckoutAnswer::Failed { why, .. }) => Some(why.name()),
                _ => None,
            };
            Because::OrderFailed { order: None, tr: None, why }
        }
        _ => Because::OutOfPlace,
    }
}
