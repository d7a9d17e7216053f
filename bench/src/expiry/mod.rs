//! `holdfast bench expiry`: how holds that ran out are found and ended in the cluster's PostgreSQL, beside two other ways on
//! the same data: the obvious query, and the ten steps of the document that Holdfast's expiry replaces.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | sizes, counts, bounds |
//! | `place` | a database of its own on the server that was named |
//! | `seed` | the document's tables and process, faults included |
//! | `data` | one data set in both schemas |
//! | `node` | the store's handlers in this process, messages handed on in memory |
//! | `bench` | what is measured, in which order |
//! | `goals`, `report`, `plot` | what must be reached; figures as data, for people and as a picture |

mod bench;
mod data;
mod goals;
pub(crate) mod node;
pub mod options;
pub(crate) mod place;
mod plot;
mod report;
pub mod seed;

pub use bench::bench_expiry;
pub use options::ExpiryOptions;
pub use plot::plot;
pub use report::ExpiryReport;

use holdfast_domain::ids::Millis;

/// Now, by this machine's clock. The database's is the one that counts; this only sets expirations.
fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}
