//! Callbacks: the topic `notifications` becomes rows of `callback`, and whoever holds a participant's shard delivers them.
//!
//! A row is there from the notification until its delivery, so a node that dies takes nothing with it. Rows of one transfer
//! come in order: its notifications share a partition. Of one participant and transfer, one row at a time is due.

mod dead;
mod due;
mod facts;
mod message;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::effects::{Asked, NotificationKind, Party};
use holdfast_domain::ids::{HUB, Millis, ParticipantId, TransferId};
use holdfast_messages::{Answer, Notice, Notification, TraceId, TransferNotice};
use postgres::GenericClient;

use crate::batch::{Batch, Part, Reading};
use crate::outbox::Outbox;
use crate::session::{Settings, Statements, Store};
use crate::step::{Decided, Opened, Step, Work};
use crate::types::{Moment, Uuid, list};
use crate::{Claim, Error};

pub use dead::{DeadCallback, Given};
pub use due::{DueCallback, Failed};
pub use facts::CallbackFacts;

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
        let mut whom: BTreeSet<ParticipantId> = self.wanted.iter().map(|callback| callback.to).collect();
        let endpoints = if whom.is_empty() {
            Endpoints::new()
        } else {
            whom.insert(HUB);
            endpoints(&mut step.tx, step.statements, &whom)?
        };
        // Nobody's right to anything depends on when this is.
        Ok((endpoints, step.guard.asked_at))
    }

    fn decide(self, (endpoints, now): (Endpoints, Millis), _: &Settings) -> Option<Decided<'m, Self::Rows>> {
        let Callbacks { part, mut wanted, outbox } = self;
        let before = wanted.len();
        wanted.retain_mut(|callback| is_called(callback, &endpoints));
        let unheard = before - wanted.len();
        let quiet = wanted.is_empty() && outbox.dead_letters.is_empty();
        let mut decided = part.decided(now, outbox, wanted);
        (decided.done.unheard, decided.done.quiet, decided.lasts) = (unheard, quiet, !quiet);
        Some(decided)
    }

    fn write(wanted: Vec<Wanted>, step: &mut Opened<'_>, _: &mut Outbox<'m>) -> Result<(), Error> {
        add(step, &wanted)
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

/// Where who wants to be called with what.
type Endpoints = BTreeMap<(ParticipantId, String), String>;

/// The endpoints of these. Numbers that cannot be stored belong to nobody.
fn endpoints(
    client: &mut impl GenericClient,
    statements: &Statements,
    whom: &BTreeSet<ParticipantId>,
) -> Result<Endpoints, Error> {
    let whom: Vec<i32> = whom.iter().filter_map(|id| i32::try_from(id.0).ok()).collect();
    let sql = "SELECT participant_id, endpoint_type, value FROM participant_endpoint
         WHERE participant_id = ANY($1)";
    let rows = statements.query(client, sql, &[&whom])?;
    rows.iter()
        .map(|row| {
            let id = ParticipantId(crate::load::number("participant_endpoint", row.get(0))?);
            Ok(((id, row.get(1)), row.get(2)))
        })
        .collect()
}

/// Whether it is called, and then whom.
fn is_called(callback: &mut Wanted, endpoints: &Endpoints) -> bool {
    let has_endpoint = |to, kind: &str| endpoints.contains_key(&(to, kind.to_owned()));
    let to = callback.message.receiver(callback.to, has_endpoint);
    callback.to = to.unwrap_or(callback.to);
    to.is_some()
}

/// The shard of a participant's callbacks. Participants are numbered one after the other, so they spread by themselves.
fn shard_of(participant: ParticipantId, shards: i16) -> i16 {
    let shards = u32::from(shards.unsigned_abs()).max(1);
    i16::try_from(participant.0 % shards).expect("below the count of shards")
}

const ADD: &str = "INSERT INTO callback (shard, participant_id, transfer_id, message_type, transfer_state_id,
         error_code, error_reason, participant_currency_id, value, net_debit_cap, trace,
         answers_prepare, decided_date, next_try)
     SELECT shard, who, transfer, kind, state, code, reason, account, value, cap, trace, answers, $1, $1
     FROM unnest($2::smallint[], $3::int[], $4::uuid[], $5::text[], $6::smallint[], $7::int[],
         $8::smallint[], $9::int[], $10::numeric[], $11::numeric[], $12::uuid[], $13::boolean[])
         WITH ORDINALITY AS u (shard, who, transfer, kind, state, code, reason, account, value, cap,
         trace, answers, place)
     ORDER BY place
     ON CONFLICT (transfer_id, participant_id, trace, message_type) DO NOTHING";

fn add(step: &mut Opened<'_>, wanted: &[Wanted]) -> Result<(), Error> {
    if wanted.is_empty() {
        return Ok(());
    }
    let shards = step.settings.callback_shards;
    // Whoever has an endpoint has a number that was stored.
    let whom = |to: ParticipantId| i32::try_from(to.0).expect("participants are numbered within 31 bits");
    let said = list(wanted, |callback| Columns::of(callback.message));
    step.statements.execute(
        &mut step.tx,
        ADD,
        &[
            &Moment(step.now),
            &list(wanted, |callback| shard_of(callback.to, shards)),
            &list(wanted, |callback| whom(callback.to)),
            &list(wanted, |callback| callback.transfer.map(|id| Uuid(id.0))),
            &list(&said, |said| said.kind),
            &list(&said, |said| said.state),
            &list(&said, |said| said.code),
            &list(&said, |said| said.reason),
            &list(&said, |said| said.account),
            &list(&said, |said| said.value),
            &list(&said, |said| said.net_debit_cap),
            &list(wanted, |callback| Uuid(callback.trace.0)),
            &list(wanted, |callback| callback.answers_prepare),
        ],
    )?;
    Ok(())
}
