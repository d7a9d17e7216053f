//! What the edge needs of the engine behind it, and nothing else: so the same paths stand before the hub of the embedded
//! profile and before a node of the cluster.
//!
//! Commands and questions about participants go in with a function that is called once with the answer: that is how the
//! hub's writer and a node's consumers work, and it costs the way of a payment nothing. Views are rare and come as futures.
//! How long a caller waits is the edge's business, not the engine's.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `embedded` | the engine of the embedded profile: a hub in this process |
//! | `cluster` | the engine of the cluster profile: a node before Kafka and PostgreSQL |

mod cluster;
mod embedded;

use std::future::Future;
use std::pin::Pin;

use holdfast_domain::command::Command;
use holdfast_domain::ids::{Millis, ParticipantId, TransferId, TransferNo};
use holdfast_domain::records::Sealed;
use holdfast_domain::registry::{Registry, Whose};
use holdfast_domain::transfers::Transfer;
use holdfast_domain::views::{NamedTransfer, Stats, TransferFilter, TransferPage, TransferStory};
use holdfast_postgres::DeadCallback;
use serde_json::{Map, Value};

pub use holdfast_hub::{Answer, Refusal};

use crate::shop::Counter;
use crate::tokens::Vault;

pub use cluster::ClusterEngine;
pub(crate) use embedded::EmbeddedEngine;

/// Which program stands behind the edge; it says which paths there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// One hub with its own log and state.
    Embedded,
    /// A node before Kafka and PostgreSQL.
    Cluster,
}

impl Profile {
    /// Whether commands of that kind are decided there together with others.
    #[must_use]
    pub const fn has(self, command: &Command) -> bool {
        match (self, command) {
            (Profile::Embedded, _) => true,
            (Profile::Cluster, Command::Token(_) | Command::Shop(_)) => false,
            (Profile::Cluster, _) => true,
        }
    }
}

/// Why an engine could not tell what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The question was not taken.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What is stored cannot be read now.
    #[error("{0} (the store cannot be read)")]
    Unreadable(String),
    /// The threads that would have answered are gone.
    #[error("the hub has stopped; see /health")]
    Stopped,
    /// The text is not the `next` of a page that this engine gave.
    #[error("'{0}' is not the 'next' of an earlier page")]
    NoSuchPage(String),
}

/// What an engine reads, when it is there.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// Called once with the rows that were asked for, or with the reason why there are none. Dropped without being called:
/// the engine has stopped.
pub type Question = Box<dyn FnOnce(Result<&dyn Registry, EngineError>) + Send>;

/// Called when records are durable.
pub type Written = Box<dyn FnOnce() + Send>;

/// One part of an engine, as `/health` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its name: `log`, `clock`, …
    pub name: &'static str,
    /// Why commands are not taken on its account; `None`: it is well.
    pub fault: Option<String>,
}

/// What `/hub/stats` shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// What every profile counts.
    pub stats: Stats,
    /// What this one knows besides, by name.
    pub more: Map<String, Value>,
}

/// What stands behind the edge.
pub trait Engine: Send + Sync + 'static {
    /// Which program this is.
    fn profile(&self) -> Profile;

    /// Has records decided. `answer` is called once with one outcome per record, when all are durable and decided; or
    /// with the refusal. An answer that is dropped without being called means that the engine has stopped.
    ///
    /// # Errors
    /// If they were not taken; the answer is not called then.
    fn decide(&self, records: Sealed, answer: Answer) -> Result<(), Refusal>;

    /// As [`Engine::decide`]; `written` is called when the records are durable, if that is known before they are decided.
    ///
    /// # Errors
    /// As [`Engine::decide`]; neither is called then.
    fn decide_telling(&self, records: Sealed, written: Written, answer: Answer) -> Result<(), Refusal> {
        // Where both come at once, the answer is what counts.
        drop(written);
        self.decide(records, answer)
    }

    /// Takes records into the log. `answer` is called once when they are durable, also if nothing is decided yet; whoever
    /// asks looks at no outcome, and there may be none.
    ///
    /// # Errors
    /// If they were not taken; the answer is not called then.
    fn take(&self, records: Sealed, answer: Answer) -> Result<(), Refusal> {
        self.decide(records, answer)
    }

    /// Asks about participants. The answer sees all that was answered before the question was asked.
    ///
    /// # Errors
    /// If the question was not taken; it is not called then.
    fn ask(&self, whose: Whose, question: Question) -> Result<(), Refusal>;

    /// The transfer of that id, open or ended.
    fn transfer(&self, id: TransferId) -> Reading<'_, Option<Transfer>>;

    /// The same with its past.
    fn story(&self, id: TransferId) -> Reading<'_, Option<TransferStory>>;

    /// A page of at most `limit` transfers. `after`: the `next` of the page before.
    fn transfers(
        &self,
        filter: TransferFilter,
        after: Option<String>,
        limit: usize,
    ) -> Reading<'_, TransferPage>;

    /// Open holds that run out before `before`, by expiration and number, after the one given, at most `limit`.
    fn holds(
        &self,
        before: Millis,
        after: Option<(Millis, TransferNo)>,
        limit: usize,
    ) -> Reading<'_, Vec<NamedTransfer>>;

    /// What was done, and what is held now.
    fn figures(&self) -> Reading<'_, Figures>;

    /// Callbacks that were given up, by number, after the one given: of one participant, or of all; at most `limit`. Of an
    /// engine that keeps them itself; a hub's are kept by the edge.
    fn dead_letters(
        &self,
        _to: Option<ParticipantId>,
        _after: Option<u64>,
        _limit: usize,
    ) -> Reading<'_, Vec<DeadCallback>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Has one of them tried again; `false`: there is none of that number.
    fn retry_dead_letter(&self, _number: u64) -> Reading<'_, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Has up to `max` of one participant, or of all, tried again; how many.
    fn retry_dead_letters(&self, _to: Option<ParticipantId>, _max: usize) -> Reading<'_, u64> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// The vault: the hub's own, or the one that all nodes of a cluster share. `None` where there is none,
    /// as on a node that takes no requests.
    fn vault(&self) -> Option<Vault> {
        None
    }

    /// The shop: the hub's own, or the one that all nodes of a cluster share. `None` where there is none.
    fn shop(&self) -> Option<Counter> {
        None
    }

    /// Every part, and what is wrong with it. Commands are taken when nothing is. Must not wait.
    fn health(&self) -> Vec<Component>;

    /// Brings metrics up to date that are not counted as things happen. An engine that cannot leaves them as they are.
    fn publish_metrics(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}
