//! What the hub shows of its state. A view sees whole frames, and only durable ones; it comes as values, and is made into
//! JSON here.

pub(crate) mod dead_letters;
pub(crate) mod filters;
pub(crate) mod holds;
pub(crate) mod stats;
pub(crate) mod transfer;
pub(crate) mod transfers;

use holdfast_domain::participants::Name;
use holdfast_domain::views::NamedTransfer;
use holdfast_wire::admin::ShownCurrency;
use holdfast_wire::views::{ExternalState, TransferRow, TransferState};
use holdfast_wire::{Instant, Nullable};

/// A transfer as every list shows it.
fn row(shown: &NamedTransfer) -> TransferRow {
    let row = &shown.row;
    let name = |name: &Option<Name>| Nullable(name.map(|name| name.as_str().to_owned()));
    let known = ExternalState::ALL.iter().find(|known| known.word() == row.state.external());
    TransferRow {
        transfer_id: row.id.to_string(),
        state: TransferState(row.state),
        transfer_state: known.copied().unwrap_or(ExternalState::Received),
        payer_fsp: name(&shown.payer),
        payee_fsp: name(&shown.payee),
        amount: row.amount.to_string(),
        currency: ShownCurrency(row.currency),
        expiration: Instant(row.expiration),
    }
}
