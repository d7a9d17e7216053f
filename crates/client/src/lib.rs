//! The Rust client of a Holdfast hub.
//!
//! Callers await single calls; the client sends whatever waits as one `POST /hub/batch` as soon as a connection is
//! free. When nothing is under way a call leaves at once, so one caller alone never waits for company, and a
//! thousand callers share a few large requests.
//!
//! Every call ends by its deadline, with a reply or with an error that tells the truth about the outcome
//! ([`ClientError`]). Until then an attempt that failed is repeated with the same record; the hub answers a repeat
//! of a transfer record with what it decided the first time. Of the operator's calls, creating a participant and
//! its first limits have no id: repeated after a lost answer they may be answered with 3000 (with the numbers of
//! what is there) or 2001, though the first attempt succeeded. A checkout is never paid twice, but a repeat of one that
//! failed is another try ([`Checkout`]).
//!
//! Two calls of which neither waits for the other have no order. Records of one [`Batch`] are decided in its order.
//!
//! ```no_run
//! use holdfast_client::{Client, ClientError, ClientOptions, Fulfil, Prepare};
//! use holdfast_domain::ids::{ParticipantId, TransferId};
//! use holdfast_domain::money::Amount;
//!
//! /// Participant 1 pays participant 2 five dollars. `fulfilment` is the payee's secret, `condition` its SHA-256.
//! async fn pay(id: u128, fulfilment: [u8; 32], condition: [u8; 32], expiration: i64) -> Result<(), ClientError> {
//!     let client = Client::connect(ClientOptions::to("127.0.0.1:4000")).await?;
//!     let (id, payer, payee) = (TransferId(id), ParticipantId(1), ParticipantId(2));
//!     let (amount, currency) = (Amount(50_000), "USD".parse().expect("three capital letters"));
//!     let held = client.prepare(Prepare { id, payer, payee, amount, currency, expiration, condition }).await?;
//!     println!("{:?}, refused with {} (0: not refused)", held.state, held.code);
//!     let settled = client.fulfil(Fulfil { id, payee, fulfilment }).await?;
//!     println!("{:?}, the payee stands at {}", settled.state, settled.value);
//!     Ok(())
//! }
//! ```
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | every bound, with its name and default |
//! | `requests` | the fields of each call, and batches |
//! | `checkouts` | the same for the shop |
//! | `calls` | calls wait here; records gather into the next request |
//! | `shipment` | one request under way and who waits for it |
//! | `sender` | carries a shipment until it has ended: attempts, pauses, splitting |
//! | `link` | one HTTP connection |

mod backoff;
mod calls;
mod checkouts;
mod error;
mod link;
pub mod options;
mod requests;
mod sender;
mod shipment;

pub use checkouts::{Checkout, CheckoutReply, ORDER_BYTES_MAX};
pub use error::{Cause, ClientError};
pub use holdfast_domain::command::{Admin, Command};
pub use holdfast_domain::records::batch::Reply;
pub use options::ClientOptions;
pub use requests::{Abort, Batch, Created, Fulfil, Prepare, SealedBatch};

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::task::AbortHandle;
use tokio::time::{sleep, sleep_until, timeout};

use crate::backoff::Backoff;
use crate::calls::{Answer, Calls, Ticket};
use crate::link::Link;
use crate::sender::Sender;

/// A hub, as its callers see it. Clones share the connections; the last one to go closes them.
#[derive(Clone)]
pub struct Client {
    calls: Arc<Calls>,
    options: Arc<ClientOptions>,
    _tasks: Arc<Tasks>,
}

struct Tasks(Vec<AbortHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Client {
    /// Connects to the hub, trying again until the deadline. Must be called inside a tokio runtime, on which the
    /// connections then live. The other connections are opened when they are first needed.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`] if the hub was not reached.
    pub async fn connect(options: ClientOptions) -> Result<Client, ClientError> {
        let options = Arc::new(options.bounded());
        let first = first_link(&options).await?;
        let calls = Arc::new(Calls::new(&options));
        let mut link = Some(first);
        let mut tasks: Vec<AbortHandle> = (0..options.connections as u64)
            .map(|number| Sender::new(Arc::clone(&calls), Arc::clone(&options), link.take(), number))
            .map(|sender| tokio::spawn(sender.run()).abort_handle())
            .collect();
        tasks.push(
            tokio::spawn(keep_deadlines(Arc::clone(&calls), Instant::now() + options.deadline))
                .abort_handle(),
        );
        Ok(Client { calls, options, _tasks: Arc::new(Tasks(tasks)) })
    }

    /// Asks to reserve.
    ///
    /// # Errors
    /// As [`ClientError`] says. A refusal by the rules is a reply with a code, not an error.
    pub async fn prepare(&self, call: Prepare) -> Result<Reply, ClientError> {
        self.call(call.into()).await
    }

    /// Asks to settle.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn fulfil(&self, call: Fulfil) -> Result<Reply, ClientError> {
        self.call(call.into()).await
    }

    /// Asks to release.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn abort(&self, call: Abort) -> Result<Reply, ClientError> {
        self.call(call.into()).await
    }

    /// Asks to check an order out.
    ///
    /// # Errors
    /// As [`Client::prepare`]; a checkout that failed is a reply, too.
    pub async fn checkout(&self, call: Checkout) -> Result<CheckoutReply, ClientError> {
        let reply = self.call(call.into()).await?;
        CheckoutReply::from_reply(&reply).ok_or(ClientError::Unknown { cause: Cause::NotAReply })
    }

    /// Sends one command of the operator; of a new participant [`Created::from_reply`] reads the numbers.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn admin(&self, admin: Admin) -> Result<Reply, ClientError> {
        self.call(Command::Admin(admin)).await
    }

    /// Sends any one command.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn call(&self, command: Command) -> Result<Reply, ClientError> {
        requests::check(&command)?;
        match (Call { calls: &self.calls, stage: CallStage::New(Letter::Record(command)) }).await? {
            Answer::One(reply) => Ok(reply),
            Answer::Many(_) => unreachable!("a record is answered with one reply"),
        }
    }

    /// Sends a batch as one request of its own and gives one reply per record, in their order.
    ///
    /// # Errors
    /// As [`Client::prepare`]; an error is one for the whole batch.
    pub async fn batch(&self, batch: impl Into<SealedBatch>) -> Result<Vec<Reply>, ClientError> {
        let batch = batch.into();
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        match (Call { calls: &self.calls, stage: CallStage::New(Letter::Batch(batch)) }).await? {
            Answer::Many(replies) => Ok(replies),
            Answer::One(_) => unreachable!("a batch is answered with a list"),
        }
    }

    /// Gets a view such as `/metrics` or `/hub/stats`, on a connection of its own.
    ///
    /// # Errors
    /// If the hub was not reached, or answered with another status than 200.
    pub async fn get(&self, path: &str) -> Result<String, ClientError> {
        let unavailable = |cause| ClientError::Unavailable { cause };
        let getting = async {
            let opened = Link::open(&self.options).await;
            let mut link = opened.map_err(|error| unavailable(Cause::Connect(error.kind())))?;
            link.get(path, options::VIEW_BYTES_MAX).await.map_err(unavailable)
        };
        let got = timeout(self.options.deadline, getting).await;
        let (status, body) = got.map_err(|_| unavailable(Cause::Timeout))??;
        let text = String::from_utf8_lossy(&body).into_owned();
        if status.is_success() {
            Ok(text)
        } else {
            let detail = text.chars().take(options::REFUSAL_BYTES_MAX).collect();
            Err(ClientError::Refused { status: status.as_u16(), detail })
        }
    }

    /// The options in force.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }
}

async fn first_link(options: &ClientOptions) -> Result<Link, ClientError> {
    let mut backoff = Backoff::new(options.jitter_seed);
    let mut cause = Cause::Timeout;
    let trying = async {
        loop {
            match Link::open(options).await {
                Ok(link) => return link,
                Err(error) => cause = Cause::Connect(error.kind()),
            }
            sleep(backoff.next()).await;
        }
    };
    let link = timeout(options.deadline, trying).await;
    link.map_err(|_| ClientError::Unavailable { cause })
}

/// Ends overdue calls. All calls have the same time, so this wakes about once per deadline while all goes well.
async fn keep_deadlines(calls: Arc<Calls>, mut look: Instant) {
    loop {
        sleep_until(look.into()).await;
        look = calls.end_overdue(Instant::now());
    }
}

/// What a call sends.
enum Letter {
    Record(Command),
    Batch(SealedBatch),
}

enum CallStage {
    New(Letter),
    Waiting(Ticket),
    Over,
}

/// A call. Nothing is sent before it is first polled. Dropping it does not take back what was sent.
struct Call<'a> {
    calls: &'a Calls,
    stage: CallStage,
}

impl Future for Call<'_> {
    type Output = Result<Answer, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.stage, CallStage::Over) {
            CallStage::New(letter) => {
                let submitted = match letter {
                    Letter::Record(command) => self.calls.submit(&command, context.waker()),
                    Letter::Batch(batch) => self.calls.submit_batch(batch, context.waker()),
                };
                match submitted {
                    Err(error) => return Poll::Ready(Err(error)),
                    Ok(ticket) => self.stage = CallStage::Waiting(ticket),
                }
                Poll::Pending
            }
            CallStage::Waiting(ticket) => {
                let polled = self.calls.poll(ticket, context);
                if polled.is_pending() {
                    self.stage = CallStage::Waiting(ticket);
                }
                polled
            }
            CallStage::Over => panic!("a call was polled after its end"),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let CallStage::Waiting(ticket) = self.stage {
            self.calls.leave(ticket);
        }
    }
}
