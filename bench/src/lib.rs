//! Measuring Holdfast: `holdfast bench` starts a server of its own and reports figures that can be compared;
//! `holdfast load` drives a hub that is running already.
//!
//! What is counted: a payment is a prepare with a condition and its fulfil with the real preimage, both answered,
//! so both on disk. Ids, preimages and conditions (and, for whole batches, the request bodies) are made before the
//! clock starts; writing records, HTTP, waiting and reading replies are inside it. One refused or unknown payment
//! fails a benchmark run.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | shapes, cases, bounds |
//! | `payments` | the material: participants, ids, preimages |
//! | `child` | the server as a process of its own |
//! | `drive` | batches or single payments in a closed loop |
//! | `bins` | the position step alone |
//! | `fspiop` | payments over the JSON path, with and without callbacks |
//! | `meter`, `disk`, `machine` | what is read beside the clock |
//! | `depth` | `bench transfers` over a long history: windows, restarts, mass expiry |
//! | `bench`, `load` | `bench transfers` and `load transfers` |
//! | `tokens` | `bench tokens` and `load tokens`: the selector alone, with a log under it, over HTTP, and shared by nodes |
//! | `shop` | `load checkout` and `bench checkout` |
//! | `expiry` | `bench expiry`: the cluster's expiry beside the process that it replaces |
//! | `cluster` | `bench transfers --profile cluster`: all hops, the floor of their rows, half load |
//! | `line`, `pace` | one connection; when the rounds of a load begin |
//! | `report`, `table` | figures as data and for people |

pub mod bench;
mod bins;
mod child;
pub mod cluster;
pub mod depth;
mod disk;
mod drive;
mod error;
pub mod expiry;
pub mod fspiop;
mod goal;
mod line;
pub mod load;
mod machine;
mod meter;
pub mod options;
mod pace;
mod payments;
pub mod report;
pub mod shop;
mod table;
pub mod tokens;

pub use bench::bench_transfers;
pub use cluster::{ClusterOptions, ClusterReport, bench_cluster};
pub use depth::{DepthOptions, DepthReport, bench_depth};
pub use error::BenchError;
pub use expiry::{ExpiryOptions, ExpiryReport, bench_expiry};
pub use fspiop::{FspiopOptions, FspiopReport, bench_fspiop};
pub use goal::Goal;
pub use load::{LoadEnd, LoadReport, load_transfers};
pub use options::{BenchOptions, LoadOptions, Pace, Shape};
pub use report::BenchReport;
pub use shop::{CheckoutBenchOptions, CheckoutReport, bench_checkout};
pub use shop::{CheckoutLoadOptions, CheckoutLoadReport, load_checkouts};
pub use tokens::load::{TokenLoadOptions, TokenLoadReport, load_tokens};
pub use tokens::shared::{SharedOptions, SharedReport, bench_shared_tokens};
