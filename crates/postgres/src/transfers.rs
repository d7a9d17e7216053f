//! Handler 1: the topic `transfers`. Duplicate? Rules? Whose fulfil? What passes goes on to `position`.

use std::collections::BTreeSet;

use holdfast_domain::FrameInput;
use holdfast_domain::command::{Command, FulfilAction};
use holdfast_domain::effects::{Effects, Outcome};
use holdfast_domain::hops::receive;
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId};
use holdfast_domain::transfers::{Completion, CompletionKind, TransferState};
use holdfast_domain::view::View;

use crate::batch::{Batch, Done, Step};
use crate::guard::Guard;
use crate::load::Loader;
use crate::loaded::Loaded;
use crate::messages::{Asked, Incoming, Notice, Outgoing, PositionMessage, Told};
use crate::session::{Point, Store};
use crate::write::{Besides, DeadRow, Writer};
use crate::{Claim, Error};

impl Store {
    /// Handler 1 over a batch: prepares, fulfils, aborts and lookups.
    ///
    /// # Errors
    /// If the database fails; then nothing of the batch's last transaction has happened, or all of it (the stored offset
    /// tells).
    pub fn transfers(&mut self, claim: &Claim, batch: &Batch<'_, Command>) -> Result<Step, Error> {
        self.run(claim, batch, attempt)
    }
}

fn attempt(
    store: &mut Store,
    claim: &Claim,
    batch: &Batch<'_, Command>,
    verdict: Option<&str>,
) -> Result<Step, Error> {
    store.reserve_numbers(batch.messages.len())?;
    let Store { client, statements, settings, numbers, watch } = store;
    let mut tx = client.transaction()?;
    watch.reached(Point::Begun);
    let Some(guard) = Guard::lock(&mut tx, statements, claim)?.filter(|guard| guard.offset == batch.from)
    else {
        return Ok(Step::Fenced);
    };
    watch.reached(Point::GuardLocked);
    let mut besides = Besides::default();
    let readable = sort_out(batch.messages, verdict, &mut besides);
    let commands: Vec<Command> = readable.iter().map(|(_, command)| (*command).clone()).collect();

    let mut loader = Loader::new(&mut tx, statements);
    load(&mut loader, &commands)?;
    let now = loader.clock()?;
    let mut loaded = loader.loaded;
    loaded.next_transfer = numbers.start;
    watch.reached(Point::Loaded);

    let frame = FrameInput { base_offset: 0, time: now, order: settings.order, commands: &commands };
    let mut received = receive(&loaded, &frame);
    let effects = &mut received.effects;
    let indexes: Vec<usize> =
        effects.transfers.iter().map(|row| usize::try_from(row.offset).expect("an index")).collect();
    for (row, index) in effects.transfers.iter_mut().zip(&indexes) {
        row.offset = readable[*index].0.offset;
        if let Command::Prepare(prepare) = &readable[*index].1 {
            besides.opaque.push((row.no, 0, &prepare.tail));
        }
    }
    let mut passed = vec![false; commands.len()];
    for (index, message) in &received.passed {
        passed[*index] = true;
        let (incoming, command) = readable[*index];
        match command {
            Command::Fulfil(fulfil) => besides.opaque.push((message.transfer, 1, &fulfil.tail)),
            Command::Abort(abort) => besides.opaque.push((message.transfer, 1, &abort.tail)),
            _ => {}
        }
        let position = PositionMessage {
            transfer: command.transfer().expect("it is about a transfer"),
            account: message.account,
            action: message.action,
            amount: message.amount,
        };
        besides.outgoing.push((&incoming.trace, Outgoing::Position(position)));
    }
    for (index, (incoming, command)) in readable.iter().enumerate().filter(|(index, _)| !passed[*index]) {
        let notice = answer(&loaded, effects, &indexes, index, command);
        besides.outgoing.push((&incoming.trace, Outgoing::Notification(notice)));
    }
    watch.reached(Point::Decided);

    let new = effects.transfers.len() as u64;
    let mut writer = Writer { tx: &mut tx, statements, watch, now, shards: settings.expiry_shards };
    writer.write(guard, batch.next, loaded, effects, &besides)?;
    tx.commit()?;
    watch.reached(Point::Committed);
    numbers.start += new;
    Ok(Step::Done(Done {
        messages: batch.messages.len(),
        dead_letters: besides.dead_letters.len(),
        sent: besides.outgoing.len(),
        transactions: 1,
        time: now,
    }))
}

/// Unreadable and foreign messages become dead letters; the others are decided.
fn sort_out<'a>(
    messages: &'a [Incoming<Command>],
    verdict: Option<&str>,
    besides: &mut Besides<'a>,
) -> Vec<(&'a Incoming<Command>, &'a Command)> {
    let mut readable = Vec::with_capacity(messages.len());
    for incoming in messages {
        let reason = match (&incoming.message, verdict) {
            (_, Some(verdict)) => verdict.to_owned(),
            (Err(reason), None) => reason.clone(),
            (Ok(command), None) if command.stands_alone() => {
                "it is no command of the topic transfers: only prepares paid from a position, fulfils, aborts and lookups are"
                    .to_owned()
            }
            (Ok(command), None) => {
                readable.push((incoming, command));
                continue;
            }
        };
        let Incoming { offset, trace, body, .. } = incoming;
        besides.dead_letters.push(DeadRow { offset: *offset, trace, reason, body });
    }
    readable
}

fn load(loader: &mut Loader<'_, '_>, commands: &[Command]) -> Result<(), Error> {
    let ids: BTreeSet<TransferId> = commands.iter().filter_map(Command::transfer).collect();
    loader.lock_transfers(&ids)?;
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

/// What the sender of a command that went no further is told.
fn answer(loaded: &Loaded, effects: &Effects, new: &[usize], index: usize, command: &Command) -> Notice {
    let outcome: &Outcome = &effects.outcomes[index];
    let (to, asked, completion) = match command {
        Command::Prepare(prepare) => (prepare.source, Asked::Prepare, None),
        Command::Fulfil(fulfil) => {
            let (asked, kind) = match fulfil.action {
                FulfilAction::Commit => (Asked::Commit, CompletionKind::Commit),
                FulfilAction::Reserve => (Asked::Reserve, CompletionKind::Reserve),
            };
            (fulfil.source, asked, Some(Completion { kind, digest: fulfil.fulfilment }))
        }
        Command::Abort(abort) => {
            let completion = Completion { kind: CompletionKind::Abort, digest: abort.digest };
            (abort.source, Asked::Abort, Some(completion))
        }
        Command::Lookup(lookup) => (lookup.source, Asked::Lookup, None),
        _ => unreachable!("others are dead letters"),
    };
    let id = command.transfer().expect("it is about a transfer");
    // The batch itself may have brought the transfer, or its completion.
    let added = effects.transfers.iter().find(|row| row.id == id);
    let known = loaded.transfer(id).or(added);
    let taken = known.and_then(|row| {
        let earlier = effects.completions.iter().find(|taken| taken.transfer == row.no);
        earlier.map(|taken| taken.completion).or_else(|| row.completion())
    });
    let first = new.binary_search(&index).is_ok();
    let repeat = !first
        && known.is_some_and(|known| match command {
            Command::Prepare(prepare) => known.hash == prepare.hash,
            _ => completion.is_some() && taken == completion && known.payee == to,
        });
    Notice {
        told: Told::Answer { asked, repeat },
        to,
        transfer: Some(id),
        state: outcome.state,
        code: outcome.code,
        reason: outcome.reason,
        completion: taken.map(|taken| taken.kind),
        subject: outcome.subject,
        value: outcome.value,
    }
}
