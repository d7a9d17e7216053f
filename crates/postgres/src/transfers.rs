//! Handler 1: the topic `transfers`. Duplicate? Rules? Whose fulfil? What passes goes on to `position`.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::FrameInput;
use holdfast_domain::codes::ErrorCode;
use holdfast_domain::command::{Command, FulfilAction, Prepare};
use holdfast_domain::effects::{Effects, NotificationKind, Outcome};
use holdfast_domain::hops::{Received, receive};
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId, TransferNo};
use holdfast_domain::positions::{Action, Message};
use holdfast_domain::tokens::Name as TokenName;
use holdfast_domain::transfers::{Code, Completion, CompletionKind, Reason, Transfer, TransferState};
use holdfast_domain::view::View;
use holdfast_messages::{
    Answer, Asked, ErrorInformation, Notice, Notification, Place, PositionMessage, PositionWork,
    Step as PositionStep, TransferCommand, TransferMessage,
};

use crate::batch::{Batch, Part};
use crate::copy::CopyRows;
use crate::guard::{Source, signed};
use crate::incoming::Incoming;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::notices::MovedTransfer;
use crate::outbox::Outbox;
use crate::session::{Settings, Store};
use crate::step::{Decided, Locked, Opened, Step, Work};
use crate::{Claim, Error};

impl Store {
    /// Handler 1 over a batch: prepares, fulfils, aborts and lookups.
    ///
    /// # Errors
    /// If the database fails; then nothing of the batch's last transaction has happened, or all of it (the stored offset
    /// tells).
    pub fn transfers(&mut self, claim: &Claim, batch: &Batch<'_, TransferMessage>) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| {
            let (readable, outbox) = part.readable();
            let commands = readable.iter().map(|(_, message)| message.command.clone().into()).collect();
            part.step(store, Transfers { part, readable, commands, outbox })
        })
    }
}

type Readable<'m> = (&'m Incoming<TransferMessage>, &'m TransferMessage);

/// Bytes to hand on: of which transfer, of its prepare (0) or of what completed it (1).
type Opaque<'m> = (TransferNo, i16, &'m [u8]);

struct Transfers<'p, 'm> {
    part: Part<'p, 'm, TransferMessage>,
    readable: Vec<Readable<'m>>,
    commands: Vec<Command>,
    outbox: Outbox<'m>,
}

impl<'m> Work<'m> for Transfers<'_, 'm> {
    type Known = Locked;
    type Rows = Vec<Opaque<'m>>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<Locked, Error> {
        let first = step.take_numbers(self.commands.len())?;
        let mut loader = step.loader();
        load(&mut loader, &self.commands)?;
        let (mut loaded, now) = loader.finish()?;
        loaded.next_transfer = first;
        loaded.pledged.disarm(&mut self.commands);
        Ok((loaded, now))
    }

    fn decide(self, (loaded, now): Locked, settings: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Transfers { part, readable, commands, mut outbox } = self;
        let source = part.claim.source;
        let mut opaque = Vec::with_capacity(commands.len());
        let frame = FrameInput { base_offset: 0, time: now, order: settings.order, commands: &commands };
        let Received { mut effects, passed: moving } = receive(&loaded, &frame);
        let indexes: Vec<usize> =
            effects.transfers.iter().map(|row| usize::try_from(row.offset).expect("an index")).collect();
        for (row, index) in effects.transfers.iter_mut().zip(&indexes) {
            let (incoming, message) = readable[*index];
            row.offset = incoming.offset;
            if let TransferCommand::Prepare(prepare) = &message.command {
                opaque.push((row.no, 0, &*prepare.tail));
            }
        }
        let mut passed = vec![false; commands.len()];
        for (index, message) in &moving {
            passed[*index] = true;
            let (incoming, TransferMessage { trace, command }) = readable[*index];
            opaque.extend(tail_of_completion(message.transfer, command));
            let work = PositionWork::Step(PositionStep {
                action: message.action,
                transfer: command.transfer(),
                amount: message.amount,
                error: error_of(command, message),
                origin: Some(source.place(incoming.offset)),
            });
            outbox.send(&PositionMessage { trace: *trace, account: message.account, work });
        }
        tell_funded(source, &loaded, &effects, &readable, &mut passed, &mut opaque, &mut outbox);
        for (index, (incoming, message)) in readable.iter().enumerate().filter(|(index, _)| !passed[*index]) {
            let origin = source.place(incoming.offset);
            outbox.send(&answer(&loaded, &effects, &indexes, index, message, origin));
        }
        Some(Decided { loaded, effects, ..part.decided(now, outbox, opaque) })
    }

    fn write(rows: Vec<Opaque<'m>>, step: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        let mut copy = CopyRows::new(3);
        for (no, part, bytes) in rows.into_iter().filter(|(.., bytes)| !bytes.is_empty()) {
            copy.row().big(signed(no.0)).small(part).bytes(bytes);
        }
        Ok(copy.send(&mut step.tx, &step.statements.copy_opaque)?)
    }
}

/// What is handed on of the fulfil or abort of a transfer.
fn tail_of_completion(no: TransferNo, command: &TransferCommand) -> Option<Opaque<'_>> {
    match command {
        TransferCommand::Fulfil(fulfil) => Some((no, 1, &fulfil.tail)),
        TransferCommand::Abort(abort) => Some((no, 1, &abort.tail)),
        TransferCommand::Prepare(_) | TransferCommand::Lookup(_) => None,
    }
}

/// The transfers that tokens pay for have moved here and now: both sides are told.
fn tell_funded<'m>(
    source: Source,
    loaded: &Loaded,
    effects: &Effects,
    readable: &[Readable<'m>],
    told: &mut [bool],
    opaque: &mut Vec<Opaque<'m>>,
    outbox: &mut Outbox<'m>,
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
                opaque.extend(tail_of_completion(transfer.no, command));
            }
            let moved = MovedTransfer {
                transfer,
                completion: taken(effects, transfer).map(|completion| completion.kind),
                action: Some(action),
                outcome: &effects.outcomes[index],
                trace: *trace,
                origin: Some(source.place(incoming.offset)),
            };
            moved.tell(notification, outbox);
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
