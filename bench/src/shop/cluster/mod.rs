//! `holdfast bench checkout --profile cluster`: checkouts through all hops of a node before a real Kafka and PostgreSQL, and
//! beside them, in the same run, what they replace: one transaction for each checkout on the same server.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | counts and bounds |
//! | `bench` | what is measured, in which order |
//! | `alone` | one transaction per checkout, without messages |
//! | `takeover` | a node that finds a million outcomes in Kafka |
//! | `report` | figures as data and for people; what they are held against |

mod alone;
mod bench;
pub mod options;
mod report;
mod takeover;

pub use bench::bench_shared_checkout;
pub use options::SharedCheckoutOptions;
pub use report::SharedCheckoutReport;
