//! Traffic for a hub, and what the hub and its callers feel of it. `holdfast load` drives a hub that is running already;
//! `holdfast bench` starts hubs of its own on this machine's disk and reports figures that machines can be compared by.
//!
//! What is counted: a payment is a prepare with a condition and its fulfil with the real preimage, both answered,
//! so both on disk. Ids, preimages and conditions (and, for whole batches, the request bodies) are made before the
//! clock starts; writing records, HTTP, waiting and reading replies are inside it. One refused or unknown payment
//! fails a benchmark run.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `transfers`, `tokens`, `shop` | a load and a bench of each |
//! | `options`, `bar` | counts, bounds, pace; how far a run is |
//! | `bench`, `server` | cases of a bench, each run on a hub of its own; the hub as a process |
//! | `payments`, `batches`, `drive` | the material of payments; whole batches of them; batches or single payments in a closed loop |
//! | `wire`, `line`, `pace` | HTTP on a socket; one connection; when the rounds of a load begin |
//! | `meter`, `disk`, `machine` | what is read beside the clock |
//! | `figures`, `report` | times, counts and rates; what was found, in one shape for people and programs |

pub mod bar;
pub mod batches;
pub mod bench;
mod disk;
pub mod drive;
mod error;
pub mod figures;
pub mod line;
pub mod machine;
pub mod meter;
pub mod options;
pub mod pace;
pub mod payments;
pub mod report;
pub mod server;
pub mod shop;
#[cfg(test)]
mod stand_in;
pub mod tokens;
pub mod transfers;
pub mod wire;

pub use disk::{Disk, probe};
pub use error::LoadError;

/// How a load ended: its figures, and what is wrong with the run beside them.
#[derive(Debug)]
pub struct Loaded {
    /// What the callers felt.
    pub report: report::Report,
    /// Books that do not balance or cannot be read.
    pub wrong: Option<LoadError>,
}
