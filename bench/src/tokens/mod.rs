//! Measuring tokens: `holdfast bench tokens` and `holdfast load tokens`.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `library` | the selector alone, and its peers' algorithms beside it |
//! | `journal` | the vault of a hub in this process, with its log |
//! | `load` | a hub over HTTP: select, then spend or release |
//! | `bench` | these three, one after the other |
//! | `shared` | several nodes on one PostgreSQL, beside sherdlock's algorithm |
//! | `tally` | rounds counted |

mod bench;
mod journal;
pub mod library;
pub mod load;
pub mod shared;
mod tally;

pub use bench::{
    HTTP_SELECTIONS_DEFAULT, HttpRun, Parts, SELECTIONS_DEFAULT, TOKENS_DEFAULT, TokensOptions, TokensReport,
    bench_tokens,
};
pub use journal::JournalReport;
