//! Loads of a depth run: percentiles of their requests, and loads of which some are under way when the server is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_client::Client;
use holdfast_load::LoadError;
use holdfast_load::batches::{Diary, Felt, Load, carry_each, worker_lost};
use holdfast_load::figures::Percentiles;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Percentiles of the time that requests took.
pub(super) fn percentiles<'a>(requests: impl IntoIterator<Item = &'a Felt>) -> Percentiles {
    Percentiles::of_times(requests.into_iter().map(Felt::took))
}

/// Carries loads until `enough` of them are acknowledged, and returns at that moment with others under way.
pub(super) async fn carry_some(
    client: &Client,
    loads: Arc<Vec<Load>>,
    connections: usize,
    enough: usize,
) -> Result<UnderWay, LoadError> {
    let (done, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, told) = (Arc::clone(&done), Arc::clone(&reached));
    let mut tasks = carry_each(client, &loads, connections, &Arc::new(Diary::default()), move || {
        if counted.fetch_add(1, Ordering::Relaxed) + 1 == enough {
            told.notify_one();
        }
    });
    loop {
        tokio::select! {
            biased;
            () = reached.notified() => return Ok(UnderWay { _tasks: tasks }),
            ended = tasks.join_next() => match ended {
                Some(ended) => ended.map_err(worker_lost)??,
                None => return Err(LoadError::Refused("the load ended before the kill".to_owned())),
            },
        }
    }
}

/// Requests whose answers nobody has read yet. Dropping it gives them up.
pub(super) struct UnderWay {
    _tasks: JoinSet<Result<(), LoadError>>,
}
