//! The handlers of payments, and of what outside ledgers did with tokens.

use holdfast_messages::{Notification, PositionMessage, TokenUpdate, TransferMessage};
use holdfast_postgres::Store;

use super::Hop;
use crate::tokens::limits::UPDATES_MAX;

/// Handler 1.
pub(crate) fn transfers() -> Hop<TransferMessage> {
    Hop { gathers: false, ..Hop::new(Store::transfers) }
}

/// Handler 2.
pub(crate) fn position() -> Hop<PositionMessage> {
    Hop { gathers: false, ..Hop::new(Store::positions) }
}

/// Handler 3: who is called with what. The crate `delivery` delivers the rows that it writes.
pub(crate) fn callbacks() -> Hop<Notification> {
    Hop { workers: 1, ..Hop::new(Store::callbacks) }
}

/// What outside ledgers did with tokens. Whoever spends one of their tokens waits for the whole transaction.
pub(crate) fn token_updates() -> Hop<TokenUpdate> {
    Hop { workers: 1, messages_max: UPDATES_MAX, ..Hop::new(Store::token_updates) }
}
