//! The pure decisions of Holdfast: who may reserve what, and what follows.
//!
//! [`decide()`] takes the state before a frame and the frame's commands, and returns [`effects::Effects`] as data.
//! Nothing here reads a clock, draws a random number, does IO or waits: time, ids and options come in with the
//! frame, so the same frame gives the same effects, live and on replay.

#![deny(clippy::float_arithmetic)]

pub mod callbacks;
pub mod codec;
pub mod codes;
pub mod command;
mod decide;
mod digest;
pub mod effects;
mod expiry;
pub mod hops;
pub mod ids;
pub mod money;
mod numbered;
mod overlay;
pub mod participants;
pub mod planted;
pub mod positions;
pub mod records;
pub mod registry;
pub mod series;
pub mod shop;
pub mod text;
pub mod tokens;
pub mod transfers;
pub mod view;
pub mod views;

pub use decide::{FrameInput, decide};
pub use digest::RULES_VERSION;
