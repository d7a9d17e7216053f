//! Counts what the frames of a run decided.

use std::collections::BTreeSet;

use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Admin, Command};
use holdfast_domain::effects::Outcome;
use holdfast_domain::positions::PrepareOrder;
use holdfast_domain::transfers::{Reason, TransferState};
use holdfast_hub::prepare_order;

use crate::tally::Tally;
use crate::witness::Decided;

/// Adds a durable frame to the counts.
pub fn count(frame: &Decided<'_>, tally: &mut Tally) {
    tally.frames += 1;
    tally.records += u64::from(frame.header.count);
    match prepare_order(frame.header.options) {
        PrepareOrder::Arrival => tally.frames_by_arrival += 1,
        PrepareOrder::Smallest => tally.frames_by_amount += 1,
    }
    let mut seen = BTreeSet::new();
    if frame.commands.iter().filter_map(Command::transfer).any(|id| !seen.insert(id)) {
        tally.frames_cut += 1;
    }
    for change in frame.effects.all(|step| &step.state_changes) {
        match change.state {
            TransferState::Reserved => tally.reserved += 1,
            TransferState::Committed => tally.committed += 1,
            TransferState::AbortedError => tally.aborted += 1,
            TransferState::ExpiredReserved => tally.expired += 1,
            TransferState::Invalid => tally.invalid += 1,
            _ => {}
        }
        match change.code.and_then(|code| ErrorCode::from_number(code.number())) {
            Some(ErrorCode::PayerInsufficientLiquidity) => tally.refused_cover += 1,
            Some(ErrorCode::PayerLimitError) => tally.refused_cap += 1,
            _ => {}
        }
        if change.reason == Some(Reason::WrongFulfilment) {
            tally.wrong_preimage += 1;
        }
    }
    for (command, outcome) in frame.commands.iter().zip(frame.effects.all(|step| &step.outcomes)) {
        match command {
            Command::Admin(admin) => count_operator(admin, outcome, tally),
            _ => count_refusal(outcome, tally),
        }
    }
}

fn count_refusal(outcome: &Outcome, tally: &mut Tally) {
    if outcome.reason == Some(Reason::WrongSource) {
        tally.wrong_party += 1;
    }
    match outcome.code.and_then(|code| ErrorCode::from_number(code.number())) {
        Some(ErrorCode::ModifiedRequest) => tally.modified += 1,
        Some(ErrorCode::TransferIdNotFound) => tally.not_found += 1,
        Some(ErrorCode::TransferExpired) if outcome.state == Some(TransferState::Reserved) => {
            tally.too_late += 1;
        }
        _ => {}
    }
}

fn count_operator(admin: &Admin, outcome: &Outcome, tally: &mut Tally) {
    match (admin, outcome.code) {
        (Admin::SetLimit { .. }, None) => tally.limits_set += 1,
        (Admin::SetParticipantActive { .. } | Admin::SetAccountActive { .. }, None) => tally.switched += 1,
        (Admin::FundsIn { .. }, None) => tally.funds_in += 1,
        (Admin::FundsOutReserve { .. }, None) => tally.funds_out += 1,
        (Admin::FundsOutReserve { .. }, Some(_)) => tally.funds_out_refused += 1,
        _ => {}
    }
}
