//! The real binary, started, killed and started again; and a little world of participants on it.

pub(crate) mod server;
pub(crate) mod world;
