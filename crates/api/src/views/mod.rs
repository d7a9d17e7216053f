//! What the hub shows of its state. A view is asked between two frames, so it sees whole frames, and only
//! durable ones.

pub(crate) mod filters;
pub(crate) mod holds;
pub(crate) mod stats;
pub(crate) mod transfer;
pub(crate) mod transfers;

use holdfast_domain::participants::Name;
use holdfast_domain::transfers::Transfer;
use holdfast_store::Roster;
use serde_json::{Map, Value, json};

use crate::times;

/// A transfer as it stood when it was asked for, with the names of its parties. Copied between two frames; made
/// into JSON on the caller's thread, since the writer's time belongs to payments.
struct Shown {
    row: Transfer,
    payer: Option<Name>,
    payee: Option<Name>,
}

impl Shown {
    fn of(roster: &Roster, row: Transfer) -> Shown {
        // Only an INVALID transfer can name a participant that does not exist.
        let name = |participant| roster.participant(participant).map(|row| row.name);
        Shown { payer: name(row.payer), payee: name(row.payee), row }
    }

    /// The members that every list of transfers shows.
    fn summary(&self) -> Map<String, Value> {
        let row = &self.row;
        let name = |name: &Option<Name>| name.map_or(Value::Null, |name| json!(name.as_str()));
        let members = [
            ("transferId", json!(row.id.to_string())),
            ("state", json!(row.state.name())),
            ("transferState", json!(row.state.external())),
            ("payerFsp", name(&self.payer)),
            ("payeeFsp", name(&self.payee)),
            ("amount", json!(row.amount.to_string())),
            ("currency", json!(row.currency.to_string())),
            ("expiration", json!(times::format(row.expiration))),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
