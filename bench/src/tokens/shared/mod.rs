//! `holdfast bench tokens --profile cluster`: tokens that several nodes select from in one PostgreSQL, and beside them, in the
//! same run and on the same table, the algorithm of sherdlock.
//!
//! All nodes and all callers are in this process; every answer comes after PostgreSQL has it on its disk. Every case has a
//! database of its own, which is removed again, and ends with the books: what is not spent is worth what was issued.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `options` | counts and bounds |
//! | `node` | what both can do; Holdfast's vaults |
//! | `sherdlock` | the other algorithm |
//! | `town` | a database of a case's own, its tokens, the books |
//! | `drive` | rounds of select and spend over all nodes |
//! | `neighbour` | whoever else uses the table of tokens |
//! | `cases` | one input, a hundred, one hot token |
//! | `bench` | what is measured, in which order |
//! | `goals`, `report` | what must be reached; figures as data and for people |

mod bench;
mod cases;
mod drive;
mod goals;
mod neighbour;
mod node;
pub mod options;
mod report;
mod sherdlock;
#[cfg(test)]
mod tests;
mod town;

pub use bench::bench_shared_tokens;
pub use options::SharedOptions;
pub use report::SharedReport;
