//! Ends of checkouts that the webhook is to be told of, for whoever tells them: rows of the store, in hand for a while.

use std::time::Duration;

use holdfast_engine::ShopError;
use holdfast_postgres::shop::{DueOutcome, FailedTelling};

use super::shared::asked;
use crate::handle::NodeHandle;

/// What became of attempts to tell, to be written down.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Told, or given up.
    pub over: Vec<u64>,
    /// To be tried again.
    pub failed: Vec<FailedTelling>,
}

/// The ends that are to be told, of all nodes. Cheap to clone.
#[derive(Clone)]
pub struct Tellings {
    pub(crate) node: NodeHandle,
}

impl Tellings {
    /// Writes down what became of some, then takes up to `max` in hand that are to be told now, for as long as `lease` says.
    ///
    /// # Errors
    /// If the database fails. All of it may be done again.
    pub async fn next(&self, told: Told, max: usize, lease: Duration) -> Result<Vec<DueOutcome>, ShopError> {
        asked(&self.node, move |store| {
            store.remove_outcomes(&told.over)?;
            store.outcomes_failed(&told.failed)?;
            store.take_outcomes(max, lease)
        })
        .await
    }

    /// How many wait, counted up to `max`.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn count(&self, max: u32) -> Result<u64, ShopError> {
        asked(&self.node, move |store| store.count_outcomes(max)).await
    }
}
