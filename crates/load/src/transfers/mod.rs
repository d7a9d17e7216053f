//! Two-phase payments: `holdfast load transfers` drives a hub that is running, `holdfast bench transfers` hubs of its own.

mod bench;
mod load;

pub use bench::{TransferBench, bench_transfers};
pub use load::{TransferLoad, load_transfers};
