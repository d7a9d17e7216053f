//! Callbacks: the topic `notifications` becomes rows of `callback`, and whoever holds a participant's shard delivers them.
//!
//! A row is there from the notification until its delivery, so a node that dies takes nothing with it. Rows of one transfer
//! come in order: its notifications share a partition. Of one participant and transfer, one row at a time is due.

mod dead;
mod due;
mod ends;
mod facts;
mod message;
mod statements;

use std::collections::BTreeSet;

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::effects::{Asked, NotificationKind, Party};
use holdfast_domain::ids::{HUB, Millis, ParticipantId, TransferId};
use holdfast_messages::{Answer, Notice, Notification, TraceId, TransferNotice};
use postgres::Transaction;

use crate::batch::{Batch, Part, Reading};
use crate::outbox::Outbox;
use crate::session::{Settings, Statements, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::types::{Decimal, Moment, Uuid};
use crate::{Claim, Error};

pub use dead::{DeadCallback, Given};
pub use due::DueCallback;
pub use ends::Failed;
pub use facts::CallbackFacts;
pub(crate) use statements::CallbackStatements;

use message::Columns;

impl Store {
    /// Handler 3 over a batch: who is called with what, as the embedded hub derives it from a frame. Who has registered no
    /// endpoint for a message gets none; an alarm goes to the hub's then.
    ///
    /// # Errors
    /// As [`Store::transfers`].
    pub fn callbacks(&mut self, claim: &Claim, batch: &Batch<'_, Notification>) -> Result<Step, Error> {
        self.run(claim, batch, |store, part| {
            let Reading { part, messages, outbox } = part.read();
            let wanted = messages.into_iter().flat_map(|(_, notification)| wanted_by(notification)).collect();
            part.step(store, Callbacks { part, wanted, outbox })
        })
    }
}

/// A callback that is wanted, if there is an endpoint for it.
struct Wanted {
    to: ParticipantId,
    transfer: Option<TransferId>,
    message: CallbackMessage,
    trace: TraceId,
    answers_prepare: bool,
}

struct Callbacks<'p, 'm> {
    part: Part<'p, 'm, Notification>,
    wanted: Vec<Wanted>,
    outbox: Outbox<'m>,
}

impl<'m> Work<'m> for Callbacks<'_, 'm> {
    type Known = (Endpoints, Millis);
    type Rows = Vec<Wanted>;

    fn load(&mut self, step: &mut Opened<'_>) -> Result<(Endpoints, Millis), Error> {
        let endpoints = endpoints(&mut step.tx, step.statements, &self.wanted)?;
        // Nobody's right to anything depends on when this is.
        Ok((endpoints, step.guard.asked_at))
    }

    fn decide(self, (endpoints, now): (Endpoints, Millis), _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Callbacks { part, mut wanted, outbox } = self;
        let before = wanted.len();
        wanted.retain_mut(|callback| is_heard(callback, &endpoints));
        let unheard = before - wanted.len();
        let quiet = wanted.is_empty() && outbox.dead_letters.is_empty();
        let mut decided = part.decided(now, outbox, wanted);
        (decided.done.unheard, decided.done.quiet, decided.lasts) = (unheard, quiet, !quiet);
        Some(decided)
    }

    fn write(wanted: Vec<Wanted>, step: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        add(&mut step.tx, step.statements, step.settings.callback_shards, step.now, &wanted)
    }
}

fn wanted_by(notification: &Notification) -> impl Iterator<Item = Wanted> + use<> {
    let Notification { trace, ref notice } = *notification;
    let (transfer, answers_prepare) = match notice {
        Notice::Transfer(TransferNotice { transfer, kind, party, .. }) => {
            (Some(*transfer), (*kind, *party) == (NotificationKind::Refused, Party::Payer))
        }
        Notice::Answer(Answer { transfer, asked, .. }) => (*transfer, *asked == Asked::Prepare),
        Notice::Alarm(_) | Notice::Checkout(_) => (None, false),
    };
    let to = notice.to().unwrap_or(HUB);
    let wanted = move |message| Wanted { to, transfer, message, trace, answers_prepare };
    notification.callbacks().into_iter().map(wanted)
}

/// Who has registered for what.
type Endpoints = BTreeSet<(ParticipantId, String)>;

fn endpoints(
    tx: &mut Transaction<'_>,
    statements: &Statements,
    wanted: &[Wanted],
) -> Result<Endpoints, Error> {
    if wanted.is_empty() {
        return Ok(Endpoints::new());
    }
    let whom: BTreeSet<ParticipantId> = wanted.iter().map(|callback| callback.to).chain([HUB]).collect();
    // Numbers that cannot be stored belong to nobody.
    let whom: Vec<i32> = whom.iter().filter_map(|id| i32::try_from(id.0).ok()).collect();
    let rows = tx.query(&statements.callbacks.endpoints, &[&whom])?;
    rows.iter()
        .map(|row| {
            let id = crate::load::number("participant_endpoint", row.get(0))?;
            Ok((ParticipantId(id), row.get(1)))
        })
        .collect()
}

/// Whether somebody wants it; an alarm turns to the hub if its participant does not.
fn is_heard(callback: &mut Wanted, endpoints: &Endpoints) -> bool {
    let kind = callback.message.endpoint_type().to_owned();
    let mut key = (callback.to, kind);
    if endpoints.contains(&key) {
        return true;
    }
    if !matches!(callback.message, CallbackMessage::Alarm { .. }) {
        return false;
    }
    callback.to = HUB;
    key.0 = HUB;
    endpoints.contains(&key)
}

/// The shard of a participant's callbacks. Participants are numbered one after the other, so they spread by themselves.
fn shard_of(participant: ParticipantId, shards: i16) -> i16 {
    let shards = u32::from(shards.unsigned_abs()).max(1);
    i16::try_from(participant.0 % shards).expect("below the count of shards")
}

fn add(
    tx: &mut Transaction<'_>,
    statements: &Statements,
    shards: i16,
    now: Millis,
    wanted: &[Wanted],
) -> Result<(), Error> {
    if wanted.is_empty() {
        return Ok(());
    }
    let columns: Vec<Columns> = wanted.iter().map(|callback| Columns::of(callback.message)).collect();
    let shard: Vec<i16> = wanted.iter().map(|callback| shard_of(callback.to, shards)).collect();
    // Whoever has an endpoint has a number that was stored.
    let whom = |to: ParticipantId| i32::try_from(to.0).expect("participants are numbered within 31 bits");
    let to: Vec<i32> = wanted.iter().map(|callback| whom(callback.to)).collect();
    let transfer: Vec<Option<Uuid>> =
        wanted.iter().map(|callback| callback.transfer.map(|id| Uuid(id.0))).collect();
    let kind: Vec<&str> = columns.iter().map(|columns| columns.kind).collect();
    let state: Vec<Option<i16>> = columns.iter().map(|columns| columns.state).collect();
    let code: Vec<Option<i32>> = columns.iter().map(|columns| columns.code).collect();
    let reason: Vec<Option<i16>> = columns.iter().map(|columns| columns.reason).collect();
    let account: Vec<Option<i32>> = columns.iter().map(|columns| columns.account).collect();
    let value: Vec<Option<Decimal>> = columns.iter().map(|columns| columns.value).collect();
    let cap: Vec<Option<Decimal>> = columns.iter().map(|columns| columns.net_debit_cap).collect();
    let trace: Vec<Uuid> = wanted.iter().map(|callback| Uuid(callback.trace.0)).collect();
    let answers: Vec<bool> = wanted.iter().map(|callback| callback.answers_prepare).collect();
    tx.execute(
        &statements.callbacks.add,
        &[
            &Moment(now),
            &shard,
            &to,
            &transfer,
            &kind,
            &state,
            &code,
            &reason,
            &account,
            &value,
            &cap,
            &trace,
            &answers,
        ],
    )?;
    Ok(())
}
