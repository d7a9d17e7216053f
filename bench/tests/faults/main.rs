//! The faults of the timeout document, by their numbers: each goes wrong with the document's own ten steps and right with
//! Holdfast's expiry, on the same server. What only MySQL's locks can show is told where it stands.

mod document;
mod handlers;
mod states;
mod time;
mod watermark;
// The same database and the same node in memory as in the store's own tests.
#[allow(dead_code, reason = "not everything is needed here")]
#[path = "../../../crates/postgres/tests/it/world.rs"]
mod world;
