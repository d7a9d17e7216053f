//! What the hub shows of its state. A view sees whole frames, and only durable ones; it comes as values, and is made into
//! JSON here.

pub(crate) mod dead_letters;
pub(crate) mod filters;
pub(crate) mod holds;
pub(crate) mod stats;
pub(crate) mod transfers;
