//! Checkouts: `holdfast load checkout` drives a hub that is running, `holdfast bench checkout` one of its own.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | what is asked for, with its bounds |
//! | `goods` | the shop of a run, and what is left of it |
//! | `load` | one request per checkout, over HTTP |
//! | `batches` | checkouts through the client |
//! | `rebuild` | outcomes folded again, without a hub |
//! | `bench` | the cases, each on a new server beside the raw disk |
//! | `cluster` | the same through Kafka and PostgreSQL, and a node that finds outcomes there |
//! | `report`, `goals` | figures as data and for people; what they are held against |

mod batches;
mod bench;
pub mod cluster;
mod goals;
mod goods;
mod load;
pub mod options;
mod rebuild;
mod report;
#[cfg(test)]
mod tests;

pub use bench::bench_checkout;
pub use goods::{Books, Goods};
pub use load::{load_checkouts, run_http};
pub use options::{CheckoutBenchOptions, CheckoutLoadOptions, Parts};
pub use report::{Case, CaseReport, CheckoutLoadReport, CheckoutReport, Kind, RebuildReport, Run, Way};
