//! What the hub shows of its state. A view is asked between two frames, so it sees whole frames, and only
//! durable ones.

pub(crate) mod holds;
pub(crate) mod stats;
pub(crate) mod transfer;
pub(crate) mod transfers;

use holdfast_domain::ids::ParticipantId;
use holdfast_domain::transfers::Transfer;
use holdfast_domain::view::View;
use holdfast_store::MemoryStore;
use serde_json::{Map, Value, json};

use crate::times;

fn name_of(store: &MemoryStore, participant: ParticipantId) -> Value {
    match store.participant(participant) {
        Some(row) => json!(row.name.as_str()),
        // Only an INVALID transfer can name a participant that does not exist.
        None => Value::Null,
    }
}

/// The members that every list of transfers shows.
fn summary(store: &MemoryStore, row: &Transfer) -> Map<String, Value> {
    let members = [
        ("transferId", json!(row.id.to_string())),
        ("state", json!(row.state.name())),
        ("transferState", json!(row.state.external())),
        ("payerFsp", name_of(store, row.payer)),
        ("payeeFsp", name_of(store, row.payee)),
        ("amount", json!(row.amount.to_string())),
        ("currency", json!(row.currency.to_string())),
        ("expiration", json!(times::format(row.expiration))),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
