//! What handlers of the shop's paths can reach: the engine's shop, and its commands with the rows that they answer.

use std::ops::Deref;
use std::sync::Arc;

use holdfast_domain::shop::{ItemRow, OrderRow, ShopCommand, ShopOutcome, UserRow, init_in_pieces};
use holdfast_engine::{Refusal, ShopError};

use super::answered;
use super::failure::Failure;

/// The shop behind the edge. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shop(pub(crate) Arc<dyn holdfast_engine::Shop>);

impl Deref for Shop {
    type Target = dyn holdfast_engine::Shop;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// A row that a command answers when it is done.
pub(super) trait Row: Sized {
    /// The row of that outcome; the outcome, if it has none of the kind.
    fn of(outcome: ShopOutcome) -> Result<Self, ShopOutcome>;
}

impl Row for UserRow {
    fn of(outcome: ShopOutcome) -> Result<UserRow, ShopOutcome> {
        if let ShopOutcome::User(row) = outcome { Ok(row) } else { Err(outcome) }
    }
}

impl Row for ItemRow {
    fn of(outcome: ShopOutcome) -> Result<ItemRow, ShopOutcome> {
        if let ShopOutcome::Item(row) = outcome { Ok(row) } else { Err(outcome) }
    }
}

impl Row for OrderRow {
    fn of(outcome: ShopOutcome) -> Result<OrderRow, ShopOutcome> {
        if let ShopOutcome::Order(row) = outcome { Ok(*row) } else { Err(outcome) }
    }
}

fn unexpected(outcome: ShopOutcome) -> ShopError {
    match outcome {
        ShopOutcome::Refused(refusal) => ShopError::Refused(refusal),
        other => ShopError::Hub(Refusal::Unknown(format!("another outcome than asked for: {other:?}"))),
    }
}

impl Shop {
    /// Has a command decided, and waits for the row that it answers.
    pub(super) async fn row_after<R: Row>(&self, command: ShopCommand) -> Result<R, Failure> {
        answered(async { R::of(self.0.decide(command).await?).map_err(unexpected) }).await
    }

    /// Rows `0` to `count`, not included, made or replaced. If it fails, some may have been made.
    pub(super) async fn init(
        &self,
        count: u64,
        command: impl Fn(u64, u32) -> ShopCommand,
    ) -> Result<(), ShopError> {
        for piece in init_in_pieces(count, command) {
            match self.0.decide(piece).await? {
                ShopOutcome::Initialised(_) => {}
                other => return Err(unexpected(other)),
            }
        }
        Ok(())
    }
}
