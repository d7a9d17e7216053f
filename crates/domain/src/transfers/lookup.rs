//! Lookup: a party asks where its transfer stands.

use crate::codes::ErrorCode;
use crate::command::Lookup;
use crate::effects::Outcome;
use crate::view::Transfers;

/// The stored answer for a party to the transfer; others learn nothing of it.
pub(crate) fn lookup(view: &impl Transfers, lookup: Lookup) -> Outcome {
    match view.transfer(lookup.id) {
        None => Outcome::refused(ErrorCode::TransferIdNotFound),
        Some(known) if known.has_party(lookup.source) => Outcome::of_transfer(known),
        Some(_) => Outcome::refused(ErrorCode::ClientError),
    }
}
