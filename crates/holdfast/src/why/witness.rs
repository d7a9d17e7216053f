//! Following the frames with an eye on one transfer.

use std::collections::HashMap;

use holdfast_domain::callbacks::callbacks;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Command, FulfilAction, Prepare};
use holdfast_domain::effects::{Effects, Outcome, Step};
use holdfast_domain::ids::{AccountId, HUB, Millis, ParticipantId, TransferId};
use holdfast_domain::money::Balance;
use holdfast_domain::participants::{Account, HUB_NAME};
use holdfast_domain::transfers::{Reason, Transfer, TransferState};
use holdfast_domain::view::{Transfers, View};
use holdfast_hub::Core;
use holdfast_log::FrameHeader;
use holdfast_store::MemoryStore;

use super::position::position_step;
use super::{Asked, Because, Difference, Event, FrameAt, PositionStep, Story, Subject, Told, checkout};
use crate::log_view::time;

/// The order and the try that it pays for.
type PaysFor = (String, Option<u32>);

/// Remembers what concerned one transfer.
pub(crate) struct Witness {
    id: TransferId,
    /// The condition of its first prepare: a transfer that has ended does not keep it.
    condition: Option<[u8; 32]>,
    /// Every account as it stood before the sub-batch that comes next.
    accounts: HashMap<AccountId, Account>,
    pays_for: Option<PaysFor>,
    events: Vec<Event>,
}

impl Witness {
    pub(crate) fn of(id: TransferId) -> Witness {
        Witness { id, condition: None, accounts: HashMap::new(), pays_for: None, events: Vec::new() }
    }

    /// Takes in a frame that `core` has just been moved over.
    pub(crate) fn frame(
        &mut self,
        header: &FrameHeader,
        commands: &[Command],
        effects: &Effects,
        core: &Core<MemoryStore>,
    ) {
        let first = commands.iter().find_map(|command| match command {
            Command::Prepare(prepare) if prepare.id == self.id => Some(prepare.condition),
            _ => None,
        });
        self.condition = self.condition.or(first);
        let known = core.store().transfer(self.id).cloned();
        let known = known.as_ref();
        let sub_batches = effects.steps.len();
        for (sub_batch, step) in effects.steps.iter().enumerate() {
            let first = step.first as usize;
            let end = first + step.outcomes.len();
            for ((at, command), outcome) in (first..end).zip(&commands[first..end]).zip(&step.outcomes) {
                if !concerns(command, self.id, known, step) {
                    continue;
                }
                let offset = header.base_offset + at as u64;
                let frame = FrameAt {
                    base_offset: header.base_offset,
                    records: header.count,
                    sub_batch,
                    sub_batches,
                };
                let (state, code) = match command {
                    // The outcome of an expiry is about all that it ended.
                    Command::Expire(_) => ended_by(step, known),
                    _ => (outcome.state, outcome.code.map(|code| code.number())),
                };
                let calls = callbacks(effects, core.store());
                let about = |call: &&holdfast_domain::callbacks::Callback| {
                    call.origin as usize == at && call.transfer == self.id
                };
                let told = calls.iter().filter(about).map(|call| Told::of(call, offset, core)).collect();
                if let (Command::Shop(_), Some(known)) = (command, known) {
                    let (place, before) = ((header.time_ms, offset, frame), self.events.len());
                    self.paid_for(place, asked(command, outcome, core.store()), outcome, known, step, core);
                    if let Some(event) = self.events[before..].last_mut() {
                        event.told = told;
                    }
                    continue;
                }
                self.events.push(Event {
                    at: header.time_ms,
                    offset,
                    frame,
                    asked: asked(command, outcome, core.store()),
                    state: state.map(TransferState::name),
                    error_code: code,
                    because: because(
                        (command, at),
                        outcome,
                        (known, self.condition, self.pays_for.as_ref()),
                        step,
                        header.time_ms,
                        core.store(),
                    ),
                    position: known.and_then(|known| {
                        let moved = step.state_changes.iter().rposition(|row| row.transfer == known.no)?;
                        self.position(known, step, (moved, Some(outcome.value)), core.store())
                    }),
                    told,
                });
            }
            self.remember(step);
        }
    }

    /// What a command of the shop did to it, each change for itself.
    fn paid_for(
        &mut self,
        (at, offset, frame): (Millis, u64, FrameAt),
        asked: Asked,
        outcome: &Outcome,
        known: &Transfer,
        step: &Step,
        core: &Core<MemoryStore>,
    ) {
        if let Asked::Checkout { order, tr, .. } = &asked {
            self.pays_for.get_or_insert_with(|| (order.clone(), *tr));
        }
        for (moved, row) in checkout::moves(known.no, step) {
            let position = self.position(known, step, (moved, None), core.store());
            self.events.push(Event {
                at,
                offset,
                frame,
                asked: asked.clone(),
                state: Some(row.state.name()),
                error_code: code_at(step, moved),
                because: checkout::because(row, outcome),
                position,
                told: Vec::new(),
            });
        }
    }

    fn remember(&mut self, step: &Step) {
        self.accounts.extend(step.accounts.iter().map(|row| (row.id, *row)));
        for row in &step.position_changes {
            if let Some(account) = self.accounts.get_mut(&row.account) {
                account.value = row.value;
            }
        }
    }

    fn position(
        &self,
        known: &Transfer,
        step: &Step,
        (moved, met): (usize, Option<Balance>),
        after: &MemoryStore,
    ) -> Option<PositionStep> {
        let account = match step.state_changes[moved].state {
            TransferState::Committed => known.payee_account,
            TransferState::Invalid | TransferState::ExpiredPrepared => None,
            _ => known.payer_account,
        };
        let account = self.accounts.get(&account?)?;
        let settlement = self.accounts.get(&account.settlement()).map_or(Balance::ZERO, |row| row.value);
        Some(position_step(known.no, known.amount, account, settlement, step, (moved, met), after))
    }

    /// The story so far.
    pub(crate) fn tell(self, core: &Core<MemoryStore>) -> Story {
        let store = core.store();
        let transfer = store.transfer(self.id).map(|row| Subject {
            payer_fsp: name_of(store, row.payer),
            payee_fsp: name_of(store, row.payee),
            amount: row.amount,
            currency: row.currency,
            expiration: row.expiration,
            state: row.state.name(),
            is_final: row.state.is_final(),
            prepared_at: row.prepared_at,
            since: row.changed_at,
        });
        Story {
            transfer_id: self.id,
            transfer,
            events: self.events,
            log_end: core.end(),
            log_time: core.last_time(),
        }
    }
}

/// A participant's name; one that does not exist has only a number.
pub(super) fn name_of(state: &impl View, id: ParticipantId) -> String {
    if id == HUB {
        return HUB_NAME.to_owned();
    }
    state.participant(id).map_or_else(|| format!("participant {}", id.0), |row| row.name.as_str().to_owned())
}

fn concerns(command: &Command, id: TransferId, known: Option<&Transfer>, step: &Step) -> bool {
    match command {
        Command::Expire(_) | Command::Shop(_) => {
            known.is_some_and(|known| step.state_changes.iter().any(|row| row.transfer == known.no))
        }
        other => other.transfer() == Some(id),
    }
}

fn ended_by(step: &Step, known: Option<&Transfer>) -> (Option<TransferState>, Option<u16>) {
    let last = known.and_then(|known| step.state_changes.iter().rposition(|row| row.transfer == known.no));
    last.map_or((None, None), |at| (Some(step.state_changes[at].state), code_at(step, at)))
}

/// The code of an end stands on the change to it, or on the one before that took the message in.
fn code_at(step: &Step, moved: usize) -> Option<u16> {
    let rows = &step.state_changes[..=moved];
    let of_transfer = rows.iter().rev().filter(|row| row.transfer == rows[moved].transfer);
    of_transfer.take(2).find_map(|row| row.code).map(|code| code.number())
}

fn asked(command: &Command, outcome: &Outcome, state: &impl View) -> Asked {
    let name = |id| name_of(state, id);
    match command {
        Command::Prepare(prepare) => Asked::Prepare {
            by: name(prepare.source),
            payer_fsp: name(prepare.payer),
            payee_fsp: name(prepare.payee),
            amount: prepare.amount,
            currency: prepare.currency,
            expiration: prepare.expiration,
        },
        Command::Fulfil(fulfil) => match fulfil.action {
            FulfilAction::Commit => Asked::Commit { by: name(fulfil.source) },
            FulfilAction::Reserve => Asked::Reserve { by: name(fulfil.source) },
        },
        Command::Abort(abort) => Asked::Abort { by: name(abort.source), payee_error: abort.code },
        Command::Lookup(lookup) => Asked::Lookup { by: name(lookup.source) },
        Command::Shop(shop) => checkout::asked(shop, outcome),
        Command::Expire(_) | Command::Admin(_) | Command::SetEndpoint(_) | Command::Token(_) => {
            Asked::Expire { holds_ended: outcome.subject.ended() }
        }
    }
}

/// Reads the reason off the outcome. `known` is the transfer after the frame, of which only what never changes and
/// what this very step wrote is used.
fn because(
    (command, at): (&Command, usize),
    outcome: &Outcome,
    (known, condition, pays_for): (Option<&Transfer>, Option<[u8; 32]>, Option<&PaysFor>),
    step: &Step,
    now: Millis,
    state: &impl View,
) -> Because {
    let code = outcome.code.and_then(|code| ErrorCode::from_number(code.number()));
    let moved = known.is_some_and(|known| step.state_changes.iter().any(|row| row.transfer == known.no));
    let repeat = step.answers.iter().any(|row| row.cause as usize == at && row.repeat);
    if let (Command::Lookup(_), Some(ErrorCode::ClientError)) = (command, code) {
        return Because::NotAParty;
    }
    if !moved && outcome.reason == Some(Reason::WrongSource) {
        let only = match command {
            Command::Prepare(prepare) => name_of(state, prepare.payer),
            _ => known.map_or_else(String::new, |known| name_of(state, known.payee)),
        };
        return Because::WrongSender { only };
    }
    // An expiry aborts nothing but what a checkout reserved whose deadline has passed.
    if matches!(command, Command::Expire(_)) && ended_by(step, known).0 == Some(TransferState::AbortedError) {
        let (order, tr) = pays_for.cloned().map_or((None, None), |(order, tr)| (Some(order), tr));
        return Because::OrderFailed { order, tr, why: Some("deadline") };
    }
    let Some(known) = known.filter(|_| outcome.state.is_some() || matches!(command, Command::Expire(_)))
    else {
        return Because::UnknownTransfer;
    };
    match (command, moved) {
        (Command::Prepare(Prepare { funding: Some(funding), .. }), true)
            if outcome.state != Some(TransferState::Invalid) =>
        {
            if outcome.state == Some(TransferState::Reserved) {
                Because::TokensHeld { tokens: funding.ids.len() }
            } else {
                Because::NoTokens
            }
        }
        (Command::Prepare(_), true) => match (outcome.state, code) {
            (Some(TransferState::Invalid), _) => {
                Because::RuleBroken { rule: outcome.reason.map_or("a rule was broken", Reason::text) }
            }
            (Some(TransferState::Reserved), _) => Because::WithinLimits,
            (_, Some(ErrorCode::PayerInsufficientLiquidity)) => Because::OverCover,
            (_, Some(ErrorCode::PayerLimitError)) => Because::OverCap,
            _ => Because::OutOfPlace,
        },
        (Command::Prepare(_) | Command::Fulfil(_) | Command::Abort(_), false) if repeat => Because::Repeat,
        (Command::Prepare(prepare), false) => {
            Because::Modified { differences: differences(known, condition, prepare, state) }
        }
        (Command::Fulfil(_), true) => match outcome.state {
            Some(TransferState::Committed) => {
                Because::FulfilmentFits { before_expiration_ms: known.expiration - now }
            }
            Some(TransferState::AbortedError) => Because::FulfilmentWrong,
            _ => Because::OutOfPlace,
        },
        (Command::Abort(_), true) => match outcome.state {
            Some(TransferState::AbortedError) => Because::PayeeGaveUp,
            _ => Because::OutOfPlace,
        },
        (Command::Fulfil(_) | Command::Abort(_), false) => match (code, outcome.reason) {
            (Some(ErrorCode::ModifiedRequest), _) => Because::OtherCompletion,
            (_, Some(Reason::NotReserved)) => Because::NotReserved,
            (Some(ErrorCode::TransferExpired), _) => Because::TooLate { late_ms: now - known.expiration },
            _ => Because::OutOfPlace,
        },
        (Command::Expire(_), _) => Because::RanOut { late_ms: now - known.expiration },
        (Command::Lookup(_), _) => Because::Asked,
        (Command::Admin(_) | Command::SetEndpoint(_) | Command::Token(_) | Command::Shop(_), _) => {
            Because::OutOfPlace
        }
    }
}

fn differences(
    first: &Transfer,
    condition: Option<[u8; 32]>,
    here: &Prepare,
    state: &impl View,
) -> Vec<Difference> {
    let hex = |bytes: &[u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let pairs = [
        ("payeeFsp", name_of(state, first.payee), name_of(state, here.payee)),
        ("amount", first.amount.to_string(), here.amount.to_string()),
        ("currency", first.currency.to_string(), here.currency.to_string()),
        ("expiration", time(first.expiration), time(here.expiration)),
        ("condition", condition.as_ref().map_or_else(String::new, hex), hex(&here.condition)),
        ("payerFsp", name_of(state, first.payer), name_of(state, here.payer)),
    ];
    pairs
        .into_iter()
        .filter(|(_, first, here)| first != here)
        .map(|(field, first, here)| Difference { field, first, here })
        .collect()
}
