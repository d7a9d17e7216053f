//! Callbacks of the database profile: rows of a table, delivered by whichever node holds their participant's shard.
//!
//! One thread has a connection to PostgreSQL and does all that concerns it: it renews the leases of its shards, writes down
//! what became of attempts, takes what is due, and writes the messages. The lanes send them. What is in
//! memory is what is under way; everything else stays in the table, so a node that dies takes nothing with it, and
//! another goes on within a lease. What both may send is sent twice; only the holder writes that it ended.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `rows` | the source: what becomes of a row after an attempt |
//! | `under_way` | what is in hand for each participant, and ends that are not written down yet |
//! | `holder` | the thread |

mod holder;
mod rows;
mod under_way;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use holdfast_database::{NodeSettings, Part};
use holdfast_postgres::{Error, Store};

use self::holder::ShardHolder;
use self::rows::Rows;
use super::CallbackError;
use crate::lanes::{Bounds, Lanes};
use crate::options::CallbackOptions;
use crate::post::Post;
use crate::tls::OutgoingTls;

/// How long the thread waits for something to end before it looks for what is due.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Dead letters are counted up to here for the metric.
pub const DEAD_COUNTED_MAX: u32 = 100_000;

/// How the callbacks of a node begin.
pub struct DatabaseCallbackSettings {
    /// Opens a connection to the store.
    pub connect: Box<dyn Fn() -> Result<Store, Error> + Send>,
    /// Tells this run of this node from all others, as leases know it.
    pub node: i64,
    /// Into how many shards callbacks are divided; as the store's settings say.
    pub shards: i16,
    /// As in the embedded profile.
    pub options: CallbackOptions,
    /// Without it, https addresses cannot be called.
    pub tls: Option<OutgoingTls>,
    /// Where trouble is seen, and that the thread has panicked.
    pub part: Arc<Part>,
}

impl DatabaseCallbackSettings {
    /// As a node has them.
    #[must_use]
    pub fn of(
        node: &NodeSettings,
        part: &Arc<Part>,
        options: CallbackOptions,
        tls: Option<OutgoingTls>,
    ) -> DatabaseCallbackSettings {
        let (url, store) = (node.store_url.clone(), node.store.clone());
        DatabaseCallbackSettings {
            shards: store.callback_shards,
            connect: Box::new(move || Store::open(&url, store.clone())),
            node: node.node_id.cast_signed(),
            options,
            tls,
            part: Arc::clone(part),
        }
    }
}

/// Running callbacks of a node. Shards are given up when it ends.
pub struct DatabaseCallbacks {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DatabaseCallbacks {
    /// Begins to deliver. Must be called inside a tokio runtime, on which the requests then run. PostgreSQL need not be
    /// there yet; it is waited for.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(settings: DatabaseCallbackSettings) -> Result<DatabaseCallbacks, CallbackError> {
        let (tls, options, part) = (settings.tls.clone(), settings.options, Arc::clone(&settings.part));
        let over = Arc::new(AtomicBool::new(false));
        let rows = Rows::new(Post::new(tls, options.connections_max), options.attempt_time_max);
        let holder = ShardHolder::new(settings, Lanes::new(rows, options, Bounds::default()));
        let thread = super::thread("callbacks", {
            let over = Arc::clone(&over);
            move || watched(&part, || holder.run(&over))
        })?;
        Ok(DatabaseCallbacks { over, thread: Some(thread) })
    }

    /// Starts no more requests, gives those under way a while to end, writes down what became of them, and gives the shards
    /// up. Blocks the thread meanwhile.
    pub fn finish(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.over.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread of callbacks panicked");
        }
    }
}

/// Has the end by a panic seen.
fn watched(part: &Part, body: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        part.fails("the thread that delivers callbacks panicked, see the log; restart this node");
        std::panic::resume_unwind(panic);
    }
}

impl Drop for DatabaseCallbacks {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_thread_is_seen() {
        let part = Part::new("delivery");
        watched(&part, || part.works());
        assert_eq!(part.trouble(), None);
        let seen = Arc::clone(&part);
        let thread = std::thread::spawn(move || watched(&seen, || panic!("on purpose")));
        assert!(thread.join().is_err());
        assert!(part.trouble().unwrap().contains("panicked"));
    }
}
