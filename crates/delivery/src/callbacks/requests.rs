//! Between the lanes and the world: what a callback says is written here, and where it is sent is looked up.
//!
//! Both happen anew for every attempt, so an address that an operator corrects is used at once, and callbacks that
//! wait cost only their row.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use holdfast_domain::callbacks::CallbackMessage;
use holdfast_domain::command::Command;
use holdfast_domain::ids::{HUB, Millis, ParticipantId};
use holdfast_domain::participants::HUB_NAME;
use holdfast_domain::registry::Registry;
use holdfast_engine::clock::{Clock, SystemClock};
use holdfast_hub::{CallbackRow, HubHandle};
use holdfast_log::LogError;
use holdfast_store::{LocalStore, Roster, Sought};
use hyper::http::Uri;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::callback::Callback;
use super::message::{Facts, compose};
use super::originals::{OriginalError, Originals};
use super::template;
use crate::lanes::NotNow;
use crate::post::Post;
use crate::request::{Envelope, Failure};

/// What became of writing one callback: where it is to go, as far as is known, and the envelope.
pub(super) type Written = (Option<String>, Result<Envelope, Failure>);

/// How requests of callbacks are written and sent.
pub(super) trait Requests: Send + Sync + 'static {
    /// Writes callbacks, each with its own result.
    fn write(&self, rows: Vec<CallbackRow>) -> impl Future<Output = Result<Vec<Written>, NotNow>> + Send;

    /// Sends one and waits for its acknowledgement.
    fn send(&self, to: ParticipantId, envelope: Envelope)
    -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Those of a running hub.
pub(super) struct HubRequests {
    hub: HubHandle,
    originals: Arc<Originals>,
    post: Post,
    clock: SystemClock,
}

impl HubRequests {
    pub(super) fn new(hub: HubHandle, originals: Arc<Originals>, post: Post) -> HubRequests {
        HubRequests { hub, originals, post, clock: SystemClock::new() }
    }

    /// Closes connections that nobody has used for long.
    pub(super) fn close_idle(&self) {
        self.post.close_idle();
    }

    /// What the hub knows of these callbacks: one question for all of them. One that cannot be read holds up no other.
    async fn facts(&self, rows: &[CallbackRow]) -> Result<Vec<Result<Facts, Failure>>, NotNow> {
        let (send, receive) = oneshot::channel();
        let rows = rows.to_vec();
        let question = self.hub.ask(Box::new(move |core| {
            let facts: Vec<_> = rows.iter().map(|row| facts_of(core.store(), row)).collect();
            // A lane that has ended needs no answer.
            let _: Result<(), _> = send.send((facts, core.store().roster()));
        }));
        question.map_err(|_| NotNow)?;
        let (facts, roster) = receive.await.map_err(|_| NotNow)?;
        // Most transfers have ended by now, and their rows may be on the disk.
        let complete = move || facts.into_iter().map(|facts| complete(facts, &roster)).collect();
        let completed = tokio::task::spawn_blocking(complete).await;
        Ok(completed.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())))
    }

    async fn origins(&self, rows: &[CallbackRow]) -> Vec<Option<Result<Command, OriginalError>>> {
        let wanted = rows.iter().map(origin_of);
        let mut origins: Vec<_> =
            wanted.map(|wanted| wanted.map(|offset| (offset, self.originals.at_hand(offset)))).collect();
        let missing = |origin: &Option<(u64, Option<_>)>| matches!(origin, Some((_, None)));
        if origins.iter().any(missing) {
            let originals = Arc::clone(&self.originals);
            let read = tokio::task::spawn_blocking(move || {
                for (offset, origin) in origins.iter_mut().flatten().filter(|(_, origin)| origin.is_none()) {
                    *origin = Some(originals.read(*offset));
                }
                origins
            });
            origins = read.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        }
        origins.into_iter().map(|origin| origin.and_then(|(_, command)| command)).collect()
    }
}

/// The offset of the command whose bytes or headers the message needs.
pub(super) const fn origin_of(row: &CallbackRow) -> Option<u64> {
    match row.message {
        CallbackMessage::Alarm { .. } => None,
        _ => Some(row.offset),
    }
}

/// The name of a participant, the hub's own included.
pub(super) fn name_of(store: &dyn Registry, participant: ParticipantId) -> Option<String> {
    if participant == HUB {
        return Some(HUB_NAME.to_owned());
    }
    store.participant(participant).map(|row| row.name.as_str().to_owned())
}

/// Adds the transfer, wherever it is, and its parties.
fn complete((facts, sought): (Facts, Sought), roster: &Roster) -> Result<Facts, Failure> {
    let name = |party| roster.participant(party).map(|row| row.name.as_str().to_owned());
    let transfer = sought.get().map_err(|error| {
        tracing::error!(%error, "a callback cannot be written");
        // The disk may answer the next time.
        Failure::ours(error.to_string())
    })?;
    let parties = transfer.as_ref().map(|transfer| (name(transfer.payer), name(transfer.payee)));
    let (payer, payee) = parties.unwrap_or_default();
    Ok(Facts { payer, payee, transfer, ..facts })
}

fn facts_of(store: &LocalStore, row: &CallbackRow) -> (Facts, Sought) {
    let alarmed = match row.message {
        CallbackMessage::Alarm { account, .. } => store.account(account).and_then(|account| {
            let name = name_of(store, account.participant)?;
            Some((name, account.currency, account.alarm_percentage))
        }),
        _ => None,
    };
    let facts = Facts {
        receiver: name_of(store, row.to).unwrap_or_default(),
        endpoint: store.endpoint(row.to, row.message.endpoint_type()).map(str::to_owned),
        alarmed,
        ..Facts::default()
    };
    (facts, store.seek(row.transfer))
}

/// Makes one attempt to deliver a callback. A failure says where.
pub(super) async fn deliver<F>(
    callback: &Callback,
    time_max: Duration,
    send: impl FnOnce(Envelope) -> F,
) -> Result<Option<()>, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let Some(written) = &callback.written else { return Err(Failure::ours("it is not written yet")) };
    let (url, envelope) = Written::clone(written);
    let sent = match envelope {
        Err(failure) => Err(failure),
        Ok(envelope) => match timeout(time_max, send(envelope)).await {
            Ok(sent) => sent,
            Err(_) => Err(Failure::passing(format!("no answer within {time_max:?}"))),
        },
    };
    sent.map(Some).map_err(|failure| Failure { url, ..failure })
}

/// The address that a template leads to for this callback.
fn address(row: &CallbackRow, facts: &Facts) -> Result<(String, Uri), Failure> {
    let kind = row.message.endpoint_type();
    let template = facts.endpoint.as_deref();
    let template =
        template.ok_or_else(|| Failure::for_good(format!("there is no endpoint of type {kind}")))?;
    let url = template::render(template, &row.transfer.to_string());
    let uri = url.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some() && uri.authority().is_some());
    match uri {
        Some(uri) => Ok((url, uri)),
        None => Err(Failure::for_good(format!("{kind} is no URL: {url}"))),
    }
}

/// Writes one callback of what is known of it and of the command that caused it.
pub(super) fn written(
    row: &CallbackRow,
    facts: &Facts,
    origin: Result<Option<Command>, Failure>,
    now: Millis,
) -> Written {
    let (url, uri) = match address(row, facts) {
        Ok(address) => address,
        Err(failure) => return (None, Err(failure)),
    };
    let message = origin.map(|origin| compose(row, facts, origin.as_ref(), now));
    (Some(url), message.map(|message| Envelope { uri, message }))
}

impl Requests for HubRequests {
    async fn write(&self, rows: Vec<CallbackRow>) -> Result<Vec<Written>, NotNow> {
        let facts = self.facts(&rows).await?;
        let origins = self.origins(&rows).await;
        let now = self.clock.read().wall;
        let written = rows.iter().zip(facts).zip(origins).map(|((row, facts), origin)| {
            let facts = match facts {
                Ok(facts) => facts,
                Err(failure) => return (None, Err(failure)),
            };
            let origin = origin.transpose().map_err(|error| match error {
                OriginalError::Log(LogError::BeforeStart { .. }) => {
                    Failure::for_good(format!("retention removed the message that it hands on: {error}"))
                }
                // The disk may answer the next time.
                OriginalError::Log(_) => Failure::ours(error.to_string()),
                OriginalError::NotThere(_) | OriginalError::Bad { .. } => {
                    Failure::for_good(error.to_string())
                }
            });
            self::written(row, &facts, origin, now)
        });
        Ok(written.collect())
    }

    async fn send(&self, to: ParticipantId, envelope: Envelope) -> Result<(), Failure> {
        self.post.send(to, envelope).await
    }
}
