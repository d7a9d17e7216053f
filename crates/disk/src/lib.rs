//! The disk: the little of a file system that the log and the store need, and a simulated one for tests.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `aligned` | memory as direct IO wants it |
//! | `fs` | the traits, and the operating system's files behind them |
//! | `simfs` | files in memory that lose power, lie and fill up on demand |
//! | `id` | the name of a data directory, which all its files carry |

mod aligned;
pub mod fs;
mod id;
pub mod simfs;

pub use aligned::{AlignedBuf, BLOCK};
pub use fs::{DirLock, File, FileSystem, RealFs, number_in_name};
pub use id::LogId;
pub use simfs::SimFs;
