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
use serde_json::{Map, Value, json};

use crate::times;

/// The members that every list of transfers shows.
fn summary(shown: &NamedTransfer) -> Map<String, Value> {
    let row = &shown.row;
    let name = |name: &Option<Name>| name.map_or(Value::Null, |name| json!(name.as_str()));
    let members = [
        ("transferId", json!(row.id.to_string())),
        ("state", json!(row.state.name())),
        ("transferState", json!(row.state.external())),
        ("payerFsp", name(&shown.payer)),
        ("payeeFsp", name(&shown.payee)),
        ("amount", json!(row.amount.to_string())),
        ("currency", json!(row.currency.to_string())),
        ("expiration", json!(times::format(row.expiration))),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
