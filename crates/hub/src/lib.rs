//! The running system on the embedded profile.
//!
//! The way of a command: an edge parses and hashes it on its own thread and submits it to the [`Intake`]. The one
//! [`Writer`] thread takes whatever waits, closes it into a frame, hands the frame to the [`Journal`] and decides it
//! while the journal writes and syncs. When the frame is durable its answers go out; meanwhile the next frame has
//! gathered in the intake.
//!
//! | room | what happens there |
//! | --- | --- |
//! | `limits` | every bound, with its name and default |
//! | `intake` | the bounded queue in front of the writer |
//! | `writer` | one turn: take, stamp, close, decide, hand over |
//! | `core` | state, offsets and audit chain; the same code live and on replay |
//! | `chain` | the running hash |
//! | `journal` | append, sync, release the answers |
//! | `keeper` | the store's jobs: block writes, checkpoints, merges |
//! | `progress` | how far the log was taken in, as a checkpoint keeps it |
//! | `callbacks` | messages of durable frames on their way to participants |
//! | `clock` | when not to believe the wall clock |
//! | `replay` | from the log back to the state |
//! | `shop` | users, items, orders and checkouts, as the port has them |
//! | `tokens` | the vault: claims in memory, judged in the log |
//! | `retention` | old segments of the log are removed, if somebody said after how long |
//! | `backup` | a copy that is consistent at one frame, made while payments go on |
//! | `keys_mark` | that callers need keys, so that a restored hub does not run open |
//! | `verify` | a data directory held against its own log |
//! | `audit` | the books recomputed from their rows, independently of the decisions |
//! | `alarm`, `health` | whether the hub can be used, and what happens when a thread dies |
//! | `offline` | a new data directory, written without a running hub |
//! | `hub` | threads, start and stop, the handle of a running hub |
//! | `engine` | the same as the port has it |

mod alarm;
mod audit;
pub mod backup;
mod callbacks;
mod chain;
mod clock;
mod core;
mod engine;
mod health;
mod hub;
mod intake;
mod journal;
mod keeper;
pub mod keys_mark;
pub mod limits;
mod meters;
mod offline;
mod pace;
mod progress;
mod replay;
mod retention;
pub mod shop;
pub mod tokens;
pub mod verify;
mod writer;

pub use callbacks::{CallbackFeed, CallbackRow, place_of};
pub use chain::Chain;
pub use core::{Core, OPTIONS_KNOWN, frame_options, prepare_order};
pub use engine::EmbeddedEngine;
pub use health::{Health, Status};
pub use hub::{Hub, HubHandle, OpenError, Opened, log_folder, store_folder};
pub use intake::{Intake, Query, Submission};
pub use journal::Journal;
pub use keeper::Keeper;
pub use offline::Offline;
pub use progress::{Counts, Progress};
pub use replay::{ReplayError, replay_with};
pub use shop::HubShop;
pub use tokens::{FundingClaim, HubVault};
pub use writer::{Turn, Writer};
