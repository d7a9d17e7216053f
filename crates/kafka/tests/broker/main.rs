//! Tests against a real broker that stays up.

#[path = "../support/mod.rs"]
mod support;

mod group;
mod measure;
mod offsets;
mod poison;
mod producing;
mod reading;
mod topics;
mod transactional;
