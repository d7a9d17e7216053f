//! Handler 1: the topic `transfers`. Duplicate? Rules? Whose fulfil? What passes goes on to `position`.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::FrameInput;
use holdfast_domain::command::{Command, Prepare};
use holdfast_domain::effects::{self, Asked, Effects};
use holdfast_domain::hops::receive;
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId, TransferNo};
use holdfast_domain::transfers::{Transfer, TransferState};
use holdfast_messages::{
    Notification, PositionMessage, PositionWork, Step as PositionStep, TransferCommand, TransferMessage,
};

use crate::batch::{Batch, Readable, Reading};
use crate::copy::CopyRows;
use crate::guard::{Source, signed};
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::notices::ToldTransfer;
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
            let reading = part.read();
            let commands = reading.messages.iter().map(|(_, message)| message.command.clone().into());
            part.step(store, Transfers { commands: commands.collect(), reading })
        })
    }
}

/// Bytes to hand on: of which transfer, of its prepare (0) or of what completed it (1).
type Opaque<'m> = (TransferNo, i16, &'m [u8]);

struct Transfers<'p, 'm> {
    reading: Reading<'p, 'm, TransferMessage>,
    commands: Vec<Command>,
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
        let Transfers { reading: Reading { part, messages: readable, mut outbox }, commands } = self;
        let source = part.claim.source;
        let mut opaque = Vec::with_capacity(commands.len());
        let frame = FrameInput { base_offset: 0, time: now, order: settings.order, commands: &commands };
        let (mut effects, passed) = receive(&loaded, &frame);
        for row in effects.steps.iter_mut().flat_map(|step| &mut step.transfers) {
            let (incoming, message) = readable[usize::try_from(row.offset).expect("an index")];
            row.offset = incoming.offset;
            if let TransferCommand::Prepare(prepare) = &message.command {
                opaque.push((row.no, 0, &*prepare.tail));
            }
        }
        for row in effects.all(|step| &step.completions) {
            opaque.extend(tail_of_completion(row.transfer, &readable[row.cause as usize].1.command));
        }
        for message in &passed {
            let (incoming, TransferMessage { trace, command }) = readable[message.cause as usize];
            let work = PositionWork::Step(PositionStep {
                action: message.action,
                transfer: command.transfer(),
                amount: message.amount,
                error: message.error,
                origin: Some(source.place(incoming.offset)),
            });
            outbox.send(&PositionMessage { trace: *trace, account: message.account, work });
        }
        tell(source, &loaded, &effects, &readable, &mut outbox);
        Some(Decided { loaded, effects, ..part.decided(now, outbox, opaque) })
    }

    fn write(rows: Vec<Opaque<'m>>, step: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        const COPY: &str = "COPY transfer_opaque (transfer_no, part, body) FROM STDIN (FORMAT binary)";
        let mut copy = CopyRows::new(3);
        for (no, part, bytes) in rows.into_iter().filter(|(.., bytes)| !bytes.is_empty()) {
            copy.row().big(signed(no.0)).small(part).bytes(bytes);
        }
        copy.send(&mut step.tx, step.statements, COPY)
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

/// The transfers that tokens pay for have moved here and now, and both sides are told. The sender of any other command that
/// went no further is answered.
fn tell(
    source: Source,
    loaded: &Loaded,
    effects: &Effects,
    readable: &[Readable<'_, TransferMessage>],
    outbox: &mut Outbox<'_>,
) {
    let caused = |cause: u32| {
        let (incoming, message) = readable[cause as usize];
        (effects.outcome(cause), message.trace, Some(source.place(incoming.offset)))
    };
    let new: BTreeMap<TransferNo, &Transfer> =
        effects.all(|step| &step.transfers).map(|row| (row.no, row)).collect();
    let mut answers: Vec<_> = effects.all(|step| &step.answers).copied().collect();
    for told in effects.all(|step| &step.notifications) {
        let known = loaded.transfers.get(&told.transfer).or_else(|| new.get(&told.transfer).copied());
        let transfer = known.expect("a notification names a transfer of the batch");
        if transfer.is_funded() {
            let (outcome, trace, origin) = caused(told.cause);
            ToldTransfer { transfer, outcome, trace, origin }.tell(told, outbox);
        } else {
            // It was invalid, so that no position is ever asked.
            let (cause, to, transfer) = (told.cause, transfer.payer, transfer.id);
            let (asked, repeat, completion) = (Asked::Prepare, false, None);
            answers.push(effects::Answer { cause, to, transfer, asked, repeat, completion });
        }
    }
    answers.sort_unstable_by_key(|row| row.cause);
    for row in &answers {
        let (outcome, trace, origin) = caused(row.cause);
        outbox.send(&Notification::answer(row, outcome, trace, origin));
    }
}

fn load(loader: &mut Loader<'_, '_>, commands: &[Command]) -> Result<(), Error> {
    let ids: BTreeSet<TransferId> = commands.iter().filter_map(Command::transfer).collect();
    loader.lock_transfers(&ids)?;
    let mut pledged = loader.loaded.funded();
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
