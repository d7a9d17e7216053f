//! The log: what was appended here is durable, in order, and can be read again from any offset.
//!
//! A **record** is a run of bytes the log does not look into. Records travel in **frames**: one frame is one
//! group commit, one decision batch, one fdatasync. Every record has an **offset**; a frame holds the offsets
//! `base_offset .. base_offset + count`. Frames lie in **segment** files of a fixed size that are
//! allocated before their first use.
//!
//! The way of a frame: [`FrameBuf`] collects records, [`Log::append`] seals and writes it, [`Tail`] wakes those
//! who follow, [`Reader`] gives it back. [`SegmentLog::open`] decides after a crash what is the log and what is
//! a torn tail. The bytes are written down in `docs/log-format.md`.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `frame` | the bytes of a frame, built and checked |
//! | `segment` | the bytes of a segment header, file names, how a segment comes to be |
//! | `blocks` | big sequential reads of a segment, and the search for what follows damage |
//! | `walk` | all frames of a directory in order, and the verdict at the end |
//! | `segment_log` | the writer: open, append, rotate |
//! | `active` | the segment that is written, and zeros ahead of small frames |
//! | `running` | the first failure, which stops all |
//! | `mark` | how far the log is known to have come |
//! | `spare` | the next segment, allocated ahead of need |
//! | `retention` | old segments are removed |
//! | `index` | where everything is |
//! | `read` | readers beside a running writer |
//! | `segment_reader` | readers of a directory whose writer is elsewhere or gone |
//! | `tail` | following without polling |
//! | `conformance` | what every log must do, as tests over the trait |

mod active;
mod blocks;
pub mod conformance;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod log;
mod mark;
mod read;
mod retention;
mod running;
mod segment;
mod segment_log;
mod segment_reader;
mod spare;
mod tail;
mod walk;

pub use error::LogError;
pub use frame::{BLOCK, FRAME_HEADER, FRAME_PAYLOAD_MAX, Frame, FrameBuf, FrameFault, FrameHeader};
pub use fuzzing::fuzz_read_segment;
pub use holdfast_disk::{DirLock, File, FileSystem, LogId, RealFs, SimFs};
pub use log::{FrameSource, Frames, Log, ReadLog, Reader};
pub use mark::write as write_end_mark;
pub use retention::{Retention, SegmentSpan};
pub use segment::{SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MIN};
pub use segment_log::{OpenReport, SegmentLog, SegmentOptions, TornTail};
pub use segment_reader::SegmentReader;
pub use spare::SparePreparer;
pub use tail::Tail;
