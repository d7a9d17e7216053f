//! The simulator: one seed is one run of the real log, the real decisions and the real loop on a simulated disk and
//! clock, with clients that repeat, an operator who meddles, and faults.
//!
//! Everything happens on one thread and every choice comes from the seed, so a run can be had again, byte for byte.
//! A run works and breaks for a while; then it is healed, and every promise of the hub must hold.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `world` | participants, limits, funds |
//! | `clients`, `vault_clients`, `shop_clients`, `operator` | what is sent |
//! | `outside_sides` | sides of a checkout that are outside the hub, honest or not |
//! | `diary` | what the senders know of it |
//! | `process` | one life of the hub, driven turn by turn |
//! | `life` | how lives begin and end: crashes, failures, restarts |
//! | `medium` | faults of the disk: errors, lies, and what they may excuse |
//! | `keeping` | the store's jobs: blocks, checkpoints, merges, at any moment |
//! | `time` | time passes; the wall clock is set wrong and right again |
//! | `turn` | one turn of the hub, looked at from all sides |
//! | `run` | the steps of a run, and the healing at its end |
//! | `seeds` | many runs on several threads |
//! | `witness` | every durable frame decided a second time |
//! | `invariants` | what must always hold, one file each |
//! | `tally`, `census`, `trace` | what happened |
//! | `coverage`, `vault_cells`, `shop_cells` | which faults struck what, and how they ended; the same for commands about tokens and
//! | | the shop |

mod census;
mod charges;
mod clients;
mod clock;
mod coverage;
mod diary;
mod invariants;
mod keeping;
mod life;
mod medium;
mod operator;
mod outside_sides;
mod process;
mod random;
mod rows;
mod run;
mod seeds;
mod shop_cells;
mod shop_clients;
mod tally;
mod time;
mod trace;
mod turn;
mod vault_cells;
mod vault_clients;
mod witness;
mod world;

pub use coverage::Coverage;
pub use invariants::{Invariant, Violation};
pub use run::{Report, run, run_traced};
pub use seeds::{Sum, run_all};
pub use tally::Tally;
