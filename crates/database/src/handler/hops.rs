//! The handlers of payments, and of what outside ledgers did with tokens.

use holdfast_messages::{Notification, PositionMessage, TokenUpdate, Topic, TransferMessage};
use holdfast_postgres::{Batch, Claim, Error, Step, Store};

use super::Hop;
use crate::settings::HANDS;
use crate::tokens::limits::UPDATES_MAX;

/// Handler 1.
pub(crate) struct Transfers;

impl Hop for Transfers {
    const TOPIC: Topic = Topic::Transfers;
    const HANDS: usize = HANDS;
    const GATHERS: bool = false;
    type Message = TransferMessage;

    fn step(
        &self,
        store: &mut Store,
        claim: &Claim,
        batch: &Batch<'_, TransferMessage>,
    ) -> Result<Step, Error> {
        store.transfers(claim, batch)
    }
}

/// Handler 2.
pub(crate) struct Position;

impl Hop for Position {
    const TOPIC: Topic = Topic::Position;
    const HANDS: usize = HANDS;
    const GATHERS: bool = false;
    type Message = PositionMessage;

    fn step(
        &self,
        store: &mut Store,
        claim: &Claim,
        batch: &Batch<'_, PositionMessage>,
    ) -> Result<Step, Error> {
        store.positions(claim, batch)
    }
}

/// Handler 3: who is called with what. The rows that it writes are delivered by the edge.
pub(crate) struct Callbacks;

impl Hop for Callbacks {
    const TOPIC: Topic = Topic::Notifications;
    const HANDS: usize = 1;
    type Message = Notification;

    fn step(&self, store: &mut Store, claim: &Claim, batch: &Batch<'_, Notification>) -> Result<Step, Error> {
        store.callbacks(claim, batch)
    }
}

/// What outside ledgers did with tokens.
pub(crate) struct TokenUpdates;

impl Hop for TokenUpdates {
    const TOPIC: Topic = Topic::TokenUpdates;
    const HANDS: usize = 1;
    /// Whoever spends one of their tokens waits for the whole transaction.
    const MESSAGES_MAX: usize = UPDATES_MAX;
    type Message = TokenUpdate;

    fn step(&self, store: &mut Store, claim: &Claim, batch: &Batch<'_, TokenUpdate>) -> Result<Step, Error> {
        store.token_updates(claim, batch)
    }
}
