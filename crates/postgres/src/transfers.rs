//! Handler 1: the topic `transfers`. Duplicate? Rules? Whose fulfil? What passes goes on to `position`.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::FrameInput;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Command, FulfilAction, Prepare};
use holdfast_domain::effects::{Effects, NotificationKind, Outcome};
use holdfast_domain::hops::receive;
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId, TransferNo};
use holdfast_domain::positions::{Action, Message};
use holdfast_domain::tokens::Name as TokenName;
use holdfast_domain::transfers::{Code, Completion, CompletionKind, Reason, Transfer, TransferState};
use holdfast_domain::view::View;
use holdfast_messages::{
    Answer, Asked, ErrorInformation, Notice, Notification, Place, PositionMessage, PositionWork,
    Step as PositionStep, TransferCommand, TransferMessage,
};

use crate::batch::{Batch, Begun, Done, Step};
use crate::guard::Source;
use crate::incoming::Incoming;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::notices::Moved;
use crate::session::{Point, Store};
use crate::write::{Besides, Writer};
use crate::{Claim, Error};

impl Store {
    /// Handler 1 over a batch: prepares, fulfils, aborts and lookups.
    ///
    /// # Errors
    /// If the database fails; then nothing of the batch's last transaction has happened, or all of it (the stored offset
    /// tells).
    pub fn transfers(&mut self, claim: &Claim, batch: &Batch<'_, TransferMessage>) -> Result<Step, Error> {
        self.run(claim, batch, attempt)
    }
}

fn attempt(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, TransferMessage>,
    verdict: Option<&str>,
) -> Result<Step, Error> {
    store.reserve_numbers(batch.messages.len())?;
    let Some(Begun { mut tx, guard, statements, settings, numbers, watch }) =
        store.begin(claim, batch.from)?
    else {
        return Ok(Step::Fenced);
    };
    let mut besides = Besides::default();
    let readable = besides.sort_out(claim.source, batch.messages, verdict);
    let mut commands: Vec<Command> =
        readable.iter().map(|(_, message)| message.command.clone().into()).collect();

    let mut loader = Loader::new(&mut tx, statements);
    load(&mut loader, &commands)?;
    let now = loader.clock()?;
    let mut loaded = loader.loaded;
    loaded.next_transfer = numbers.start;
    loaded.pledged.disarm(&mut commands);
    watch.reached(Point::Loaded);

    let frame = FrameInput { base_offset: 0, time: now, order: settings.order, commands: &commands };
    let mut received = receive(&loaded, &frame);
    let effects = &mut received.effects;
    let indexes: Vec<usize> =
        effects.transfers.iter().map(|row| usize::try_from(row.offset).expect("an index")).collect();
    for (row, index) in effects.transfers.iter_mut().zip(&indexes) {
        row.offset = readable[*index].0.offset;
        if let TransferCommand::Prepare(prepare) = &readable[*index].1.command {
            besides.opaque.push((row.no, 0, &prepare.tail));
        }
    }
    let mut passed = vec![false; commands.len()];
    for (index, message) in &received.passed {
        passed[*index] = true;
        let (incoming, TransferMessage { trace, command }) = readable[*index];
        match command {
            TransferCommand::Fulfil(fulfil) => besides.opaque.push((message.transfer, 1, &fulfil.tail)),
            TransferCommand::Abort(abort) => besides.opaque.push((message.transfer, 1, &abort.tail)),
            TransferCommand::Prepare(..) | TransferCommand::Lookup(_) => {}
        }
        let work = PositionWork::Step(PositionStep {
            action: message.action,
            transfer: command.transfer(),
            amount: message.amount,
            error: error_of(command, message),
            origin: Some(claim.source.place(incoming.offset)),
        });
        besides.send(&PositionMessage { trace: *trace, account: message.account, work });
    }
    tell_funded(claim.source, &loaded, effects, &readable, &mut passed, &mut besides);
    for (index, (incoming, message)) in readable.iter().enumerate().filter(|(index, _)| !passed[*index]) {
        let origin = claim.source.place(incoming.offset);
        besides.send(&answer(&loaded, effects, &indexes, index, message, origin));
    }
    watch.reached(Point::Decided);

    let new = effects.transfers.len() as u64;
    let moves_tokens = loaded.pledged.moves(effects);
    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    let guard = writer.write(guard, batch.next, loaded, effects, &besides, batch.sent)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    numbers.start += new;
    if moves_tokens {
        store.tell_token_change();
    }
    Ok(Step::Done(Done::of(batch, besides, &guard, now)))
}

/// The transfers that tokens pay for have moved here and now: both sides are told.
fn tell_funded<'a>(
    source: Source,
    loaded: &Loaded,
    effects: &Effects,
    readable: &[Readable<'a>],
    told: &mut [bool],
    besides: &mut Besides<'a>,
) {
    let new: BTreeMap<TransferNo, &Transfer> = effects.transfers.iter().map(|row| (row.no, row)).collect();
    let mut first = 0;
    for step in effects.steps() {
        let range = first..first + step.outcomes.len();
        first = range.end;
        let of_step = range.map(|index| (readable[index].1.command.transfer(), index));
        // No transfer is in a step twice.
        let mut places: Option<BTreeMap<TransferId, usize>> = None;
        for notification in step.notifications {
            let no = notification.transfer;
            let known = loaded.transfers.get(&no).or_else(|| new.get(&no).copied());
            let Some(transfer) = known.filter(|row| row.is_funded()) else { continue };
            let places = places.get_or_insert_with(|| of_step.clone().collect());
            let index = places[&transfer.id];
            let (incoming, TransferMessage { trace, command }) = readable[index];
            let action = match (command, notification.kind) {
                (TransferCommand::Fulfil(fulfil), NotificationKind::Committed) => match fulfil.action {
                    FulfilAction::Commit => Action::Commit,
                    FulfilAction::Reserve => Action::Reserve,
                },
                (TransferCommand::Fulfil(_) | TransferCommand::Abort(_), _) => Action::Abort,
                (TransferCommand::Prepare(_) | TransferCommand::Lookup(_), _) => Action::Prepare,
            };
            if !std::mem::replace(&mut told[index], true) {
                match command {
                    TransferCommand::Fulfil(fulfil) => besides.opaque.push((transfer.no, 1, &fulfil.tail)),
                    TransferCommand::Abort(abort) => besides.opaque.push((transfer.no, 1, &abort.tail)),
                    TransferCommand::Prepare(_) | TransferCommand::Lookup(_) => {}
                }
            }
            let moved = Moved {
                transfer,
                completion: taken(effects, transfer).map(|completion| completion.kind),
                action: Some(action),
                outcome: &effects.outcomes[index],
                trace: *trace,
                origin: Some(source.place(incoming.offset)),
            };
            moved.tell(notification, besides);
        }
    }
}

/// A transfer of the batch; the batch itself may have brought it.
fn known<'a>(loaded: &'a Loaded, effects: &'a Effects, id: TransferId) -> Option<&'a Transfer> {
    loaded.transfer(id).or_else(|| effects.transfers.iter().find(|row| row.id == id))
}

/// The fulfil or abort that a transfer took, before the batch or in it.
fn taken(effects: &Effects, transfer: &Transfer) -> Option<Completion> {
    let now = effects.completions.iter().find(|taken| taken.transfer == transfer.no);
    now.map(|taken| taken.completion).or_else(|| transfer.completion())
}

type Readable<'a> = (&'a Incoming<TransferMessage>, &'a TransferMessage);

/// The error that a release goes on with: the payee's own, or that its preimage was wrong.
fn error_of(command: &TransferCommand, message: &Message) -> Option<ErrorInformation> {
    match command {
        TransferCommand::Abort(abort) => Code::of_payee(abort.code).map(|code| (code, None)),
        TransferCommand::Fulfil(_) if message.action == Action::Abort => {
            Some((ErrorCode::ValidationError.into(), Some(Reason::WrongFulfilment)))
        }
        _ => None,
    }
}

fn load(loader: &mut Loader<'_, '_>, commands: &[Command]) -> Result<(), Error> {
    let ids: BTreeSet<TransferId> = commands.iter().filter_map(Command::transfer).collect();
    loader.lock_transfers(&ids)?;
    let funded = loader.loaded.transfers.values().filter(|row| row.is_funded());
    let mut pledged: BTreeSet<TokenName> = funded.map(|row| row.id.to_string().into()).collect();
    for command in commands {
        if let Command::Prepare(Prepare { funding: Some(funding), .. }) = command {
            pledged.insert(funding.spender.clone());
        }
    }
    loader.lock_pledged(&pledged)?;
    let mut parties: BTreeSet<(ParticipantId, Currency)> = BTreeSet::new();
    for command in commands {
        if let Command::Prepare(prepare) = command {
            parties.extend([(prepare.payer, prepare.currency), (prepare.payee, prepare.currency)]);
        }
    }
    loader.participants(&parties)?;
    // Whether an account is active; nothing here changes one, so none is locked.
    let mut accounts: BTreeSet<AccountId> = BTreeSet::new();
    for participant in loader.loaded.participants.values() {
        accounts.extend(participant.accounts.iter().map(|(_, account)| *account));
    }
    for transfer in loader.loaded.transfers.values() {
        // Its stored answer shows where the payer stands.
        if transfer.state == TransferState::AbortedRejected {
            accounts.extend(transfer.payer_account);
        }
    }
    loader.accounts(&accounts)
}

/// Who sent it, what it asks for, and with which completion.
fn asked(command: &TransferCommand) -> (ParticipantId, Asked, Option<Completion>) {
    match command {
        TransferCommand::Prepare(prepare) => (prepare.source, Asked::Prepare, None),
        TransferCommand::Fulfil(fulfil) => {
            let (asked, kind) = match fulfil.action {
                FulfilAction::Commit => (Asked::Commit, CompletionKind::Commit),
                FulfilAction::Reserve => (Asked::Reserve, CompletionKind::Reserve),
            };
            (fulfil.source, asked, Some(Completion { kind, digest: fulfil.fulfilment }))
        }
        TransferCommand::Abort(abort) => {
            let completion = Completion { kind: CompletionKind::Abort, digest: abort.digest };
            (abort.source, Asked::Abort, Some(completion))
        }
        TransferCommand::Lookup(lookup) => (lookup.source, Asked::Lookup, None),
    }
}

/// What the sender of a command that went no further is told.
fn answer(
    loaded: &Loaded,
    effects: &Effects,
    new: &[usize],
    index: usize,
    message: &TransferMessage,
    origin: Place,
) -> Notification {
    let outcome: &Outcome = &effects.outcomes[index];
    let (to, asked, completion) = asked(&message.command);
    let id = message.command.transfer();
    let known = known(loaded, effects, id);
    let taken = known.and_then(|row| taken(effects, row));
    let first = new.binary_search(&index).is_ok();
    // Without a state the sender has no business with the transfer, however much alike its command is.
    let repeat = !first
        && outcome.state.is_some()
        && known.is_some_and(|known| match &message.command {
            TransferCommand::Prepare(prepare) => known.hash == prepare.hash,
            _ => completion.is_some() && taken == completion && known.payee == to,
        });
    let answer = Answer {
        repeat,
        completion: taken.map(|taken| taken.kind),
        origin: Some(origin),
        ..Answer::of(outcome, asked, Some(id))
    };
    Notification { trace: message.trace, to: Some(to), notice: Notice::Answer(answer) }
}
