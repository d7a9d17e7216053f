//! Checkouts: `holdfast load checkout` drives a hub that is running, `holdfast bench checkout` hubs of its own.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `goods` | the shop of a run, and what is left of it |
//! | `load` | one request per checkout, over HTTP |
//! | `batches` | checkouts through the client |
//! | `bench` | the cases, each on a new hub beside the raw disk |

mod batches;
mod bench;
mod goods;
mod load;
#[cfg(test)]
mod tests;

pub use bench::{BENCH_ROWS, CheckoutBench, bench_checkout};
pub use goods::{Books, Goods};
pub use load::{CheckoutLoad, Driven, ROWS_MAX, Tally, count, drive, load_checkouts};
