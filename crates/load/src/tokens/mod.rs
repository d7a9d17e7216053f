//! Tokens: `holdfast load tokens` drives a hub that is running, `holdfast bench tokens` the vault of a hub of its own.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `load` | a hub over HTTP: select, then spend or release |
//! | `bench` | the vault with its log, and a hub over HTTP |
//! | `journal` | the vault of a hub in this process, with its log |
//! | `tally` | rounds counted |

mod bench;
mod journal;
mod load;
pub mod tally;

pub use bench::{TokenBench, bench_tokens};
pub(crate) use load::refusal;
pub use load::{TokenLoad, load_tokens};
